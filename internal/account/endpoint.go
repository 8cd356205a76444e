package account

import (
	"net"
	"net/url"
	"strings"
)

// Provider returns what stands before the first slash of a model id, lower case.
func (l *LLM) Provider() string {
	p, _, _ := strings.Cut(strings.TrimSpace(l.Model), "/")
	return strings.ToLower(p)
}

// SameEndpoint reports whether calls of two models go to the same place: that of
// the base URL, or else the provider's. Keys are only used where they were stored
// for.
func (l *LLM) SameEndpoint(other *LLM) bool {
	a, b := canonicalBase(l.BaseURL), canonicalBase(other.BaseURL)
	return a == b && (a != "" || l.Provider() == other.Provider())
}

// canonicalBase spells a base URL in one way; what is no URL stays as it is.
func canonicalBase(base string) string {
	base = strings.TrimSpace(base)
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return base
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	u.Path = strings.TrimRight(u.Path, "/")
	return u.String()
}

// Local reports whether the base URL is on this machine.
func (l *LLM) Local() bool {
	u, err := url.Parse(strings.TrimSpace(l.BaseURL))
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
}

// HasKey reports whether calls carry a key: the API key, or a header that may
// hold one.
func (l *LLM) HasKey() bool {
	if strings.TrimSpace(l.APIKey.Reveal()) != "" {
		return true
	}
	for name := range l.ExtraHeaders {
		switch strings.ToLower(name) {
		case "authorization", "api-key", "x-api-key", "x-goog-api-key":
			return true
		}
	}
	return false
}

// Connection returns how the endpoint is reached, and with how much patience,
// without what belongs to the model: for another model at the same place.
func (l LLM) Connection() LLM {
	return LLM{BaseURL: l.BaseURL, APIKey: l.APIKey, APIVersion: l.APIVersion,
		AWSAccessKeyID: l.AWSAccessKeyID, AWSSecretAccessKey: l.AWSSecretAccessKey, AWSSessionToken: l.AWSSessionToken,
		AWSRegion: l.AWSRegion, AWSProfile: l.AWSProfile, ExtraHeaders: l.ExtraHeaders, Attempts: l.Attempts,
		RetryMultiplier: l.RetryMultiplier, RetryMin: l.RetryMin, RetryMax: l.RetryMax, Timeout: l.Timeout}
}

// TakeKeys replaces the keys by those of another configuration, as far as that
// one has any.
func (l *LLM) TakeKeys(from *LLM) {
	if from.APIKey.IsSet() {
		l.APIKey = from.APIKey
	}
	if from.AWSAccessKeyID.IsSet() {
		l.AWSAccessKeyID, l.AWSSecretAccessKey, l.AWSSessionToken = from.AWSAccessKeyID, from.AWSSecretAccessKey, from.AWSSessionToken
	}
}

// WithoutSecrets drops keys, and headers, whose values often are keys.
func (l LLM) WithoutSecrets() LLM {
	l.EachSecret(func(_ string, s *Secret) { *s = Secret{} })
	l.ExtraHeaders = nil
	return l
}
