package account_test

import (
	"sync"
	"testing"

	"parley/internal/account"
)

// Looking at secrets writes nothing: conversations, their forks and questions beside
// a run look at the same maps at the same time. The race detector is the judge.
func TestSecretsCanBeReadSideBySide(t *testing.T) {
	key := account.NewSecret("value")
	secrets := account.Secrets{ProviderTokens: map[string]account.ProviderToken{"github": {Token: key}},
		Custom: map[string]account.CustomSecret{"A": {Value: key}, "B": {Value: key}}}
	mcp := account.MCPConfig{Stdio: []account.MCPStdioServer{{Env: map[string]account.Secret{"K": key}}}}
	llm := account.LLM{APIKey: key, ExtraHeaders: map[string]account.Secret{"X-Key": key}}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 100 {
				for _, v := range []account.Sealable{&secrets, &mcp, &llm} {
					if _, err := account.EncodePrivate(v); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	readers.Wait()
}
