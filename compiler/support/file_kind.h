// What a file is that was given where a model belongs, for a message that helps: people give what they have at hand, and a
// parser's position of the first wrong byte tells them nothing.
#pragma once
#include <string>
#include <string_view>

namespace metac {

// "a PyTorch file; export the network with torch.onnx.export ...", by the first bytes; "" where they are of no kind that is
// known here. Models in ONNX and texts of JSON have none.
std::string known_file_kind(std::string_view bytes);
// Does it begin as JSON does?
bool is_json_text(std::string_view bytes);

}  // namespace metac
