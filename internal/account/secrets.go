package account

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"parley/internal/fault"
)

// SecretsInput is a request to add to the secrets store. Its members are merged:
// nothing that is stored and not mentioned is touched. Entries that are no
// object, and providers nobody knows, are skipped, as clients of the legacy API
// send such.
type SecretsInput struct {
	ProviderTokens map[string]json.RawMessage `json:"provider_tokens"`
	Custom         map[string]json.RawMessage `json:"custom_secrets"`
}

type tokenChange struct {
	token  SecretChange
	host   *string
	userID *string
}

type secretsChange struct {
	tokens map[string]tokenChange
	custom map[string]CustomSecret
}

func (in SecretsInput) check(loc []any) (*secretsChange, []fault.Field) {
	c := &secretsChange{tokens: map[string]tokenChange{}, custom: map[string]CustomSecret{}}
	var fields []fault.Field
	for _, name := range sortedKeys(in.ProviderTokens) {
		m, ok := object(in.ProviderTokens[name])
		if !ok || !slices.Contains(Providers, name) {
			continue
		}
		r := reader{m: m, loc: at(loc, "provider_tokens", name)}
		c.tokens[name] = tokenChange{token: r.secret("token"), host: r.text("host"), userID: r.text("user_id")}
		fields = append(fields, r.fields...)
	}
	for _, name := range sortedKeys(in.Custom) {
		m, ok := object(in.Custom[name])
		if !ok || name == "" {
			continue
		}
		r := reader{m: m, loc: at(loc, "custom_secrets", name)}
		value, description := r.secret("secret"), r.text("description")
		fields = append(fields, r.fields...)
		if value.value.IsSet() {
			c.custom[name] = CustomSecret{Value: value.value, Description: or(description, "")}
		}
	}
	return c, fields
}

// AddSecrets merges a request into the secrets store. Its error is Invalid with all
// wrong fields; nothing is changed then.
func (s *Settings) AddSecrets(in SecretsInput, loc ...any) error {
	change, fields := in.check(loc)
	if len(fields) > 0 {
		return Invalid(fields)
	}
	s.Secrets = change.apply(s.Secrets)
	return nil
}

func object(raw json.RawMessage) (map[string]any, bool) {
	v, err := decodeAny(raw)
	m, ok := v.(map[string]any)
	return m, ok && err == nil
}

// apply returns the store after the change. A provider that is named without a
// token keeps its stored one and gets the given host and user; it is not stored
// if there is nothing to keep.
func (c *secretsChange) apply(old Secrets) Secrets {
	s := Secrets{ProviderTokens: maps.Clone(old.ProviderTokens), Custom: maps.Clone(old.Custom)}
	if len(c.tokens)+len(c.custom) == 0 {
		return s
	}
	if s.ProviderTokens == nil {
		s.ProviderTokens = map[string]ProviderToken{}
	}
	if s.Custom == nil {
		s.Custom = map[string]CustomSecret{}
	}
	for name, change := range c.tokens {
		t, stored := s.ProviderTokens[name]
		if !stored && !change.token.value.IsSet() {
			continue
		}
		if change.token.value.IsSet() {
			t.Token = change.token.value
		}
		t.Host, t.UserID = keep(change.host, t.Host), keep(change.userID, t.UserID)
		s.ProviderTokens[name] = t
	}
	maps.Copy(s.Custom, c.custom)
	return s
}

// reader reads members of an object whose shape no schema checks, and collects
// what is wrong with them. Inputs of secrets are not echoed.
type reader struct {
	m      map[string]any
	loc    []any
	fields []fault.Field
}

func (r *reader) fail(name, typ, msg string, input any) {
	r.fields = append(r.fields, fault.Field{Loc: at(r.loc, name), Type: typ, Msg: msg, Input: input})
}

func (r *reader) rule(name, text string, input any) {
	r.fields = append(r.fields, fault.Field{Loc: at(r.loc, name), Type: "value_error", Msg: "Value error, " + text,
		Input: input, Ctx: map[string]any{"error": map[string]any{}}})
}

func (r *reader) text(name string) *string {
	v := r.m[name]
	if v == nil {
		return nil
	}
	s, ok := v.(string)
	if !ok {
		r.fail(name, "string_type", "Input should be a valid string", v)
		return nil
	}
	return &s
}

// required reads a string that must be there, trimmed.
func (r *reader) required(name string) (string, bool) {
	v, there := r.m[name]
	s, ok := v.(string)
	switch {
	case !there:
		r.fail(name, "missing", "Field required", nil)
	case !ok:
		r.fail(name, "string_type", "Input should be a valid string", v)
	}
	return strings.TrimSpace(s), ok
}

func (r *reader) secret(name string) SecretChange {
	v := r.m[name]
	if v == nil {
		return SecretChange{}
	}
	s, ok := v.(string)
	if !ok {
		r.fail(name, "string_type", "Input should be a valid string", nil)
		return SecretChange{}
	}
	if s == Mask {
		return SecretChange{}
	}
	return SecretChange{set: true, value: NewSecret(strings.TrimSpace(s))}
}
