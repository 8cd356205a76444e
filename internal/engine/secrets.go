package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/lazyre"
)

// keyless are the providers that need no API key.
var keyless = []string{"bedrock", "lemonade", "ollama", "lm_studio", "vllm", "hosted_vllm", "demo"}

// checkLLM refuses a model that cannot work, before anything is stored.
func (e *Engine) checkLLM(l account.LLM) error {
	if l.Model == "" {
		return fault.New(fault.Invalid, CodeNoModel, "No LLM model is configured.").
			WithHint("Set llm_model with POST /api/settings, or start the server with --demo.")
	}
	_, err := e.opt.Models(l, ModelOptions{})
	if fault.CodeOf(err) == codeNoProvider { // nobody knows yet whether it needs a key
		return err
	}
	if !l.HasKey() && needsKey(l) {
		return fault.New(fault.Invalid, CodeNoKey, "The model %s needs an API key.", l.Model).
			WithHint("Set llm_api_key with POST /api/settings.")
	}
	return err
}

// codeNoProvider is the code of a model id that does not say where the model is.
const codeNoProvider = "llm_model_without_provider"

// needsKey reports whether a model cannot be called without an API key. Headers
// of the user's own may hold it.
func needsKey(l account.LLM) bool {
	return !slices.Contains(keyless, l.Provider()) && !l.Local() && len(l.ExtraHeaders) == 0
}

// withModel is the choice of another model than a configuration's. It takes its
// base URL, and its key only if the calls go where that key was stored for. What
// was tuned for the configuration's own model does not follow.
func withModel(l account.LLM, model string) account.LLM {
	if l.Model == model {
		return l
	}
	chosen := l.Connection()
	chosen.Model = model
	if l.Model != "" && !l.SameEndpoint(&chosen) {
		chosen = account.LLM{Model: model, BaseURL: l.BaseURL}
	}
	return chosen
}

// currentLLM is the conversation's model as it is to be called now. A profile
// that was edited counts at once, like a key that was replaced in the settings;
// one that was deleted or renamed leaves the copy that the conversation has. A key
// of the settings is used only where it was stored for, and never in place of one
// that came with the conversation's model.
func currentLLM(s *account.Settings, conv *conversation.Conversation) account.LLM {
	o := &conv.Options
	if p, ok := s.Profiles[o.LLMProfile]; ok && o.LLMProfile != "" {
		return s.WithKeys(p)
	}
	chosen := o.LLM
	if now := s.LLM(); !o.OwnKey && now.Model != "" && now.SameEndpoint(&chosen) {
		chosen.TakeKeys(&now)
	}
	return chosen
}

// refresh reads again what the user may have changed: the model, its key, the
// ceilings, secrets, and what to mask.
func (l *live) refresh(ctx context.Context) error {
	settings, err := l.currentSettings(ctx)
	if err != nil {
		return err
	}
	l.choice, l.edited = currentLLM(settings, l.conv), nil
	if p, err := settings.Profile(l.conv.Options.LLMProfile); err == nil && p.Model != l.conv.Options.LLM.Model {
		l.edited = &p
	}
	l.fallbacks, l.missing = settings.FallbackModels(&l.choice)
	l.titler = titlerOf(settings, &l.conv.Options, l.choice)
	l.remember(settings)
	l.searchKey, l.seer = settings.SearchAPIKey, l.seerOf(settings)
	l.budget, l.ceilings = budgetOf(settings), l.e.ceilingsOf(settings)
	if t := l.conv.Options.Task; t != nil && t.MaxBudget > 0 {
		own := l.spentBefore + conversation.MoneyOf(t.MaxBudget)
		l.ceilings.Own = &own
	}
	values := secretValues(settings, l.conv)
	secrets := secretsOf(settings, l.conv)
	above, err := l.e.above(ctx, l.conv)
	if err != nil {
		return err
	}
	inheritSecrets(secrets, l.conv, above)
	for _, parent := range above {
		values = append(values, secretValues(settings, parent)...)
	}
	l.secrets = secrets
	l.known.Store(&secrets)
	if l.masker == nil || !slices.Equal(values, l.masked) {
		l.masker, l.masked = l.e.opt.NewMasker(slices.Clone(values)), values
	}
	if l.extras != nil {
		l.setServers()
	}
	return nil
}

// currentSettings reads the user's settings if they have changed: every step of
// every conversation asks for them.
func (l *live) currentSettings(ctx context.Context) (*account.Settings, error) {
	settings, mark, err := l.e.opt.Store.Accounts().SettingsSince(ctx, l.conv.Owner, l.settingsMark)
	if fault.Is(err, fault.NotFound) {
		settings, err = account.DefaultSettings(), nil
	}
	if err != nil {
		return nil, err
	}
	if settings != nil {
		l.settings, l.settingsMark = settings, mark
	}
	return l.settings, nil
}

// above are the conversations that a sub-agent works for, the nearest first: none for
// a conversation of the user's. One that is gone is being deleted, and those below it
// are, too.
func (e *Engine) above(ctx context.Context, conv *conversation.Conversation) ([]*conversation.Conversation, error) {
	var all []*conversation.Conversation
	for conv.Options.Task != nil && len(all) < maxDepth {
		parent, err := e.opt.Store.Conversations().Get(ctx, conv.Owner, conv.ParentID)
		if fault.Is(err, fault.NotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		all, conv = append(all, parent), parent
	}
	return all, nil
}

// inheritSecrets adds the secrets that those above a sub-agent have now. The nearer
// one wins.
func inheritSecrets(secrets map[string]account.CustomSecret, conv *conversation.Conversation, above []*conversation.Conversation) {
	for _, parent := range slices.Backward(above) {
		maps.Copy(secrets, parent.Options.Secrets)
	}
	maps.Copy(secrets, conv.Options.Secrets)
}

// secretsNow looks the secrets of a conversation up anew.
func (e *Engine) secretsNow(ctx context.Context, owner string, id conversation.ID) (map[string]account.CustomSecret, error) {
	conv, err := e.opt.Store.Conversations().Get(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	settings, err := e.opt.Store.Accounts().Settings(ctx, owner)
	if fault.Is(err, fault.NotFound) {
		settings, err = account.DefaultSettings(), nil
	}
	if err != nil {
		return nil, err
	}
	above, err := e.above(ctx, conv)
	secrets := secretsOf(settings, conv)
	inheritSecrets(secrets, conv, above)
	return secrets, err
}

// lateSecrets looks secrets up when a command is about to run: those whose names it
// mentions, as the conversation has them then.
func (l *live) lateSecrets() func(command string) map[string]string {
	conv := *l.conv
	return func(command string) map[string]string {
		if all := l.known.Load(); all != nil {
			return commandSecrets(&conv, *all, command)
		}
		return nil
	}
}

func (e *Engine) maskerFor(ctx context.Context, conv *conversation.Conversation) (Masker, error) {
	l := &live{e: e, conv: conv}
	err := l.refresh(ctx)
	return l.masker, err
}

// secretsOf returns what commands may use: the user's secrets, provider tokens
// under their customary names, and the request's own, which win.
func secretsOf(s *account.Settings, conv *conversation.Conversation) map[string]account.CustomSecret {
	all := map[string]account.CustomSecret{}
	for provider, t := range s.Secrets.ProviderTokens {
		if t.Token.IsSet() {
			all[tokenName(provider)] = account.CustomSecret{Value: t.Token, Description: "access token for " + provider}
		}
	}
	for name, c := range s.Secrets.Custom {
		all[name] = c
	}
	for name, c := range conv.Options.Secrets {
		all[name] = c
	}
	return all
}

// secretValues lists everything that must never show in an event.
func secretValues(s *account.Settings, conv *conversation.Conversation) []string {
	var values []string
	add := func(path string, v *account.Secret) { values = append(values, hidden(path, v.Reveal())...) }
	s.EachSecret(add)
	conv.Options.EachSecret(add)
	values = append(values, account.AddressSecrets(conv.Options.LLM.BaseURL)...)
	return append(append(values, addressSecrets(s)...), passwords(s)...)
}

// addressSecrets are those in the addresses of a user's models.
func addressSecrets(s *account.Settings) []string {
	own := s.LLM()
	values := account.AddressSecrets(own.BaseURL)
	for _, p := range s.Profiles {
		values = append(values, account.AddressSecrets(p.BaseURL)...)
	}
	return values
}

// hidden returns what of a secret must not show.
func hidden(path, value string) []string {
	if strings.Contains(path, "extra_headers.") {
		return account.HeaderSecrets(value)
	}
	return []string{value}
}

// maskPayload hides secrets in everything of an event that is free text. Members
// that carry structure (kinds, ids, roles) stay: a secret that equals one of them
// must not break the log.
func maskPayload(p conversation.Payload, m Masker) {
	if m == nil {
		return
	}
	switch e := p.(type) {
	case *conversation.MessageEvent:
		maskParts(e.LLMMessage.Content, m)
		maskParts(e.ExtendedContent, m)
		e.LLMMessage.Reasoning = m.Mask(e.LLMMessage.Reasoning)
		e.CriticResult = maskCritic(e.CriticResult, m)
	case *conversation.SystemPromptEvent:
		e.SystemPrompt.Text = m.Mask(e.SystemPrompt.Text)
		for i, definition := range e.Tools { // those of a client have texts of its own
			e.Tools[i] = maskJSON(definition, m)
		}
	case *conversation.ActionEvent:
		maskParts(e.Thought, m)
		e.Reasoning, e.Summary = m.Mask(e.Reasoning), m.Mask(e.Summary)
		e.Action = maskJSON(e.Action, m)
		e.ToolCall.Arguments = string(maskJSON([]byte(e.ToolCall.Arguments), m))
		e.CriticResult = maskCritic(e.CriticResult, m)
	case *conversation.ObservationEvent:
		e.Observation = maskJSON(e.Observation, m)
		maskParts(e.ExtendedContent, m)
	case *conversation.AgentErrorEvent:
		e.Error = m.Mask(e.Error)
	case *conversation.ConversationErrorEvent:
		e.Detail = m.Mask(e.Detail)
	case *conversation.UserRejectObservation:
		e.RejectionReason = m.Mask(e.RejectionReason)
	case *conversation.Condensation:
		e.Summary = m.Mask(e.Summary)
	case *conversation.HookExecutionEvent:
		for _, text := range []*string{&e.Command, &e.Stdout, &e.Stderr, &e.Reason, &e.Context, &e.Error} {
			*text = m.Mask(*text)
		}
		e.Input = maskJSON(e.Input, m)
	case *conversation.StateUpdateEvent:
		switch e.Key {
		case conversation.KeyAgentState:
			e.Value = maskJSON(e.Value, m)
		case conversation.KeyGoal:
			e.Value = maskGoal(e.Value, m)
		}
	}
}

// maskCritic returns a copy of a critic's result without secrets.
func maskCritic(r *conversation.CriticResult, m Masker) *conversation.CriticResult {
	if r == nil {
		return nil
	}
	out := *r
	out.Message = m.Mask(r.Message)
	if r.Metadata != nil {
		out.Metadata = maskMembers(r.Metadata, m)
	}
	return &out
}

// maskGoal masks the texts of a goal, and nothing else: a goal that could not be
// read any more would be worked on for ever.
func maskGoal(raw json.RawMessage, m Masker) json.RawMessage {
	var g conversation.Goal
	if json.Unmarshal(raw, &g) != nil {
		return maskJSON(raw, m)
	}
	g.Objective = m.Mask(g.Objective)
	if g.Verdict != nil {
		g.Verdict.Missing = m.Mask(g.Verdict.Missing)
	}
	return stateUpdate(conversation.KeyGoal, g).Value
}

func maskParts(parts []content.Part, m Masker) {
	for i := range parts {
		parts[i].Text = m.Mask(parts[i].Text)
	}
}

// structural are the members of events that name what something is, in one plain
// word. With anything else in them they are free text.
var structural = map[string]bool{"kind": true, "type": true, "code": true}

var plainWord = lazyre.MustCompile(`^[A-Za-z_]{1,64}$`)

// maskJSON masks the strings of a JSON value. A value without secrets is returned
// as it is, byte for byte.
func maskJSON(raw json.RawMessage, m Masker) json.RawMessage {
	plain := m.Mask(string(raw)) == string(raw)
	if len(raw) == 0 || plain && !spelled(raw) {
		return raw
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // numbers stay as they were written
	if !json.Valid(raw) || d.Decode(&v) != nil {
		return json.RawMessage(m.Mask(string(raw)))
	}
	seen := &counting{Masker: m}
	masked := maskValue(v, seen)
	if plain && !seen.hit {
		return raw
	}
	out, err := content.Marshal(masked)
	if err != nil {
		return json.RawMessage("null") // better nothing than a secret
	}
	return out
}

// spelled reports whether a JSON text may write a plain character in another way: so
// written, a secret would not be found in the text.
func spelled(raw []byte) bool {
	return bytes.Contains(raw, []byte(`\u`)) || bytes.Contains(raw, []byte(`\/`))
}

// counting notes whether anything was masked.
type counting struct {
	Masker
	hit bool
}

// Mask implements Masker.
func (c *counting) Mask(text string) string {
	out := c.Masker.Mask(text)
	c.hit = c.hit || out != text
	return out
}

func maskValue(v any, m Masker) any {
	switch x := v.(type) {
	case string:
		return m.Mask(x)
	case json.Number:
		if hidden := m.Mask(x.String()); hidden != x.String() {
			return hidden
		}
	case []any:
		for i := range x {
			x[i] = maskValue(x[i], m)
		}
	case map[string]any:
		return maskMembers(x, m)
	}
	return v
}

func maskMembers(members map[string]any, m Masker) map[string]any {
	out := make(map[string]any, len(members))
	for k, member := range members {
		if word, ok := member.(string); !ok || !structural[k] || !plainWord.MatchString(word) {
			member = maskValue(member, m)
		}
		if !plainWord.MatchString(k) {
			k = m.Mask(k)
		}
		out[k] = member
	}
	return out
}
