// The parser's callback is where depth and repeated keys are seen before anything is built from them.
#include "io/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/file.h"

namespace longhaul::io {

nlohmann::json parse_json(std::string_view text, int depth, const std::string& what, const std::string& where) {
  using Event = nlohmann::json::parse_event_t;
  const std::string hint = "the file is damaged, or not what its name says: get it again";
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int level, Event event, nlohmann::json& value) {
    if ((event == Event::object_start || event == Event::array_start) && level >= depth)
      throw input_error(what + " nests deeper than " + std::to_string(depth), where, hint);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get_ref<const std::string&>()).second)
      throw input_error(what + " has " + quote(value.get_ref<const std::string&>()) + " twice", where, hint);
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::parse_error& error) {
    throw input_error(what + " is not JSON at byte " + std::to_string(error.byte), where, hint);
  } catch (const nlohmann::json::exception&) {  // a number beyond every type
    throw input_error(what + " has a number out of range", where, hint);
  }
}

}  // namespace longhaul::io
