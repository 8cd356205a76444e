package responses

import "parley/internal/lazyre"

// longCached are OpenAI's models whose prompt cache can be kept for a day. Newer
// ones have another setting and refuse this one; names that are not OpenAI's
// (deployments) are not known.
var longCached = lazyre.MustCompile(`^(.*/)?gpt-(4\.1|5|5\.[1-5])(-pro|-chat|-chat-latest|-codex|-codex-max|-codex-mini)?(-\d{4}-\d{2}-\d{2})?$`)

// retention24h is the only retention besides the default that the API has a word for.
const retention24h = "24h"

func keepsLongCache(model string) bool { return longCached.MatchString(model) }
