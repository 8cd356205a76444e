package agentserver

import (
	"bytes"
	"encoding/json"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
	"parley/internal/fault"
	"parley/internal/fernet"
)

// owner lets an operation run for the owner of the sandbox only. What runs in a
// sandbox may know its key, and must not change who works there, with what and at
// whose cost.
func (s *Server) owner(next httpkit.Handler) httpkit.Handler {
	return func(w http.ResponseWriter, r *httpkit.Request) error {
		if err := s.requireOwner(r.Principal); err != nil {
			return err
		}
		return next(w, r)
	}
}

func (s *Server) requireOwner(p httpkit.Principal) error {
	if p.UserID != "" || s.cfg.OwnerKeys {
		return nil
	}
	return fault.New(fault.Forbidden, "owner_key_required", "The key of a sandbox does not open its owner's settings.").
		WithHint("Use an API key of the owner below /agent/{sandbox_id}, or run parley agent-server, whose key is the owner's.")
}

// show says how a request wants to see secrets: X-Expose-Secrets (agent protocol
// 1.1). nil is not at all.
func (s *Server) show(w http.ResponseWriter, r *httpkit.Request) (settingswire.Show, error) {
	how := r.Header.Get("X-Expose-Secrets")
	switch how {
	case "":
		return nil, nil
	case "encrypted", "true", "plaintext":
	default:
		return nil, fault.New(fault.Invalid, "invalid_header", "X-Expose-Secrets must be encrypted or plaintext.")
	}
	if err := s.requireOwner(r.Principal); err != nil {
		return nil, err
	}
	w.Header().Set("Cache-Control", "no-store")
	if how == "plaintext" {
		return account.Secret.Reveal, nil
	}
	c := s.cipher(r.Principal)
	if c == nil {
		return nil, fault.New(fault.Unavailable, "no_cipher", "This server has no key to encrypt secrets with.").
			WithHint("Leave X-Expose-Secrets out, or configure secret_key.")
	}
	return func(secret account.Secret) string { return c.Encrypt(secret.Reveal()) }, nil
}

func (s *Server) cipher(p httpkit.Principal) *fernet.Cipher {
	if s.cfg.Cipher == nil {
		return nil
	}
	return s.cfg.Cipher(p.Owner)
}

// secretParts are the members of a request's objects that hold secrets, and may hold
// them encrypted. Texts elsewhere that look encrypted are texts.
var secretParts = map[string]bool{"llm": true, "mcp_config": true, "secrets": true, "critic": true, "verification": true}

// unlock decrypts what of an object was encrypted here. What another server, or for
// another user, encrypted is refused: it is of no use, and never meant to be a key.
// Only the owner may have anything decrypted, because the requester says where it is
// sent. loc is where the object stands.
func (s *Server) unlock(p httpkit.Principal, raw json.RawMessage, loc ...any) (json.RawMessage, error) {
	if !bytes.Contains(raw, []byte(fernet.Prefix)) {
		return raw, nil
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	u := &unlocker{cipher: s.cipher(p)}
	v = u.walk(v, false, loc)
	switch {
	case !u.found:
		return raw, nil
	case len(u.wrong) > 0:
		return nil, httpkit.InvalidFields(u.wrong...)
	}
	if err := s.requireOwner(p); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// unlockPart is unlock for a member of a body that is one of the secret parts.
func (s *Server) unlockPart(p httpkit.Principal, name string, raw json.RawMessage) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]json.RawMessage{name: raw})
	if err != nil {
		return nil, err
	}
	if body, err = s.unlock(p, body, "body"); err != nil {
		return nil, err
	}
	var parts map[string]json.RawMessage
	err = json.Unmarshal(body, &parts)
	return parts[name], err
}

type unlocker struct {
	cipher *fernet.Cipher
	found  bool // something looks encrypted
	wrong  []fault.Field
}

// walk returns a value with its tokens decrypted. Below a secret part all texts count.
func (u *unlocker) walk(v any, inside bool, loc []any) any {
	switch x := v.(type) {
	case map[string]any:
		for name, member := range x {
			x[name] = u.walk(member, inside || secretParts[name], append(loc[:len(loc):len(loc)], name))
		}
	case []any:
		for i, item := range x {
			x[i] = u.walk(item, inside, append(loc[:len(loc):len(loc)], i))
		}
	case string:
		if !inside || !fernet.IsToken(x) {
			return v
		}
		u.found = true
		if u.cipher != nil {
			if plain, err := u.cipher.Decrypt(x); err == nil {
				return plain
			}
		}
		u.wrong = append(u.wrong, fault.Field{Loc: loc, Type: "value_error", Ctx: map[string]any{"error": map[string]any{}},
			Msg: "Value error, This was not encrypted by this server for this user: send the value itself"})
	}
	return v
}
