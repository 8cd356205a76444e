package account_test

import (
	"slices"
	"testing"

	"parley/internal/account"
)

func TestAddressSecrets(t *testing.T) {
	for address, want := range map[string][]string{
		"": nil, "https://host/v1": nil, "https://host/v1?api-version=2024-10-21&x=1": nil, "::": nil,
		"https://user:pass-1@host/v1?key=k-1&api_key=k-2&Token=&sig=a%2Fb": {"a/b", "k-1", "k-2", "pass-1"},
		"https://token@host": {"token"}, " https://u:@host ": {"u"},
	} {
		if got := account.AddressSecrets(address); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

func TestHeaderSecrets(t *testing.T) {
	for value, want := range map[string][]string{
		"Bearer sk-0123456789": {"sk-0123456789"}, "true": nil, "prompt-caching": nil, "": nil,
		"a-long-word-without-digits": {"a-long-word-without-digits"}, "v1 2024": nil,
	} {
		if got := account.HeaderSecrets(value); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
}
