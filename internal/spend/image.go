package spend

import "strings"

// imageSizes are the most tokens that a family of models counts for one image,
// whatever its size; the first name that occurs in the model's id decides.
//
//   - OpenAI scales an image to at most 2048 x 768 and counts tiles of 512: 8 tiles
//     at 5667 tokens and 2833 more for gpt-4o-mini, at most 1445 in all for the
//     other tile models, and up to 10,000 patches (with factors up to 2.5 on the
//     small models, whose patches stop at 1536) for the rest.
//   - Anthropic counts width x height / 750 after scaling: about 1600 tokens, 4784
//     for the models with high resolution.
//   - Gemini counts 258 per tile of 768 (older ones) or at most 2240 per image.
//   - Qwen's vision models, which many endpoints serve, go to 16,384.
var imageSizes = []struct {
	name   string
	tokens int64
}{
	{"gpt-4o-mini", 49_152},
	{"claude", 5_120},
	{"gemini", 8_192},
}

// anyImage covers the other models named above.
const anyImage = 16_384

func imageTokens(model string) int64 {
	model = strings.ToLower(model)
	for _, s := range imageSizes {
		if strings.Contains(model, s.name) {
			return s.tokens
		}
	}
	return anyImage
}
