package catalog

import (
	"slices"
	"strings"

	"parley/internal/lazyre"
)

// Lookup finds a model by the id a user configures. After the id itself, in this
// order, what may stand around it is taken away: a gateway in front
// (litellm_proxy/, openhands/, openrouter/), the route or the region of a Bedrock
// id, the date of a snapshot behind. A bare name belongs to the provider that
// made the model, else to the only one that hosts it; then its capabilities are
// known, not its price.
//
// An alias is no model: pass account.LLM.CanonicalName where there is one.
func (c *Catalog) Lookup(id string) (Entry, bool) {
	id = strings.ToLower(strings.TrimSpace(id))
	if r, ok := c.exact(id); ok {
		return r.entry, true
	}
	name, gateway := throughGateway(id)
	name, variant := cutVariant(name, gateway)
	e, ok := c.find(name)
	if ok && variant != "" && variant != "thinking" {
		e.Price, e.HourPrice = nil, nil // :free, :floor, :online are billed otherwise
	}
	return e, ok
}

// find looks for a name, and for what is left of it without a snapshot's date.
func (c *Catalog) find(name string) (Entry, bool) {
	for _, form := range forms(name) {
		if r, ok := c.exact(form); ok {
			return r.entry, true
		}
		if !strings.Contains(form, "/") {
			if e, ok := c.bare(form); ok {
				return e, true
			}
		}
	}
	return Entry{}, false
}

// snapshot is the date behind a name, as the providers write it.
var snapshot = lazyre.MustCompile(`[-@](\d{4}-\d{2}-\d{2}|\d{8})$`)

// forms are the names a model may be found under, the nearest first.
func forms(name string) []string {
	out := []string{name}
	add := func(form string) {
		if form != "" && !slices.Contains(out, form) {
			out = append(out, form)
		}
	}
	if id, ok := strings.CutPrefix(name, "bedrock/"); ok {
		for _, form := range bedrockForms(id) {
			add("bedrock/" + form)
		}
	}
	if id, ok := strings.CutPrefix(name, "openai/ft:"); ok { // ft:base:org:suffix:id
		base, _, _ := strings.Cut(id, ":")
		add("openai/ft:" + base)
	}
	if i := strings.LastIndex(name, "claude-"); i >= 0 { // routers write 4.5, the maker 4-5
		add(name[:i] + strings.ReplaceAll(name[i:], ".", "-"))
	}
	for _, form := range slices.Clone(out) {
		add(snapshot.ReplaceAllString(form, ""))
	}
	return out
}

// bedrockForms takes the route (converse/, invoke/), the path of an ARN and the
// region of an inference profile from an id.
func bedrockForms(id string) []string {
	var out []string
	if strings.HasPrefix(id, "arn:") || strings.Contains(id, "/") {
		id = id[strings.LastIndexByte(id, '/')+1:]
		out = append(out, id)
	}
	for _, region := range []string{"us.", "eu.", "apac.", "global.", "jp.", "au.", "ca.", "us-gov."} {
		if rest, ok := strings.CutPrefix(id, region); ok {
			out = append(out, rest)
		}
	}
	return out
}

// throughGateway takes gateways from the front of an id, and gives what follows
// the provider's name of the catalogue.
func throughGateway(id string) (name string, gateway bool) {
	for {
		before, rest, ok := strings.Cut(id, "/")
		if !ok || before != "litellm_proxy" && before != "openhands" && before != "openrouter" {
			break
		}
		id, gateway = rest, true
	}
	maker, rest, ok := strings.Cut(id, "/")
	if !gateway || !ok {
		if m, ok := strings.CutPrefix(id, "vertex_ai/"); ok && strings.HasPrefix(m, "gemini-") {
			return "gemini/" + m, gateway
		}
		return id, gateway
	}
	return providerNamed(maker) + "/" + rest, gateway
}

// providerNamed translates a router's name of a model's maker.
func providerNamed(maker string) string {
	switch maker {
	case "google":
		return "gemini"
	case "x-ai":
		return "xai"
	case "mistralai":
		return "mistral"
	case "moonshotai":
		return "moonshot"
	case "z-ai":
		return "zai"
	}
	return maker
}

// cutVariant takes a router's variant (":free") from a name. Elsewhere a colon is
// part of the name.
func cutVariant(name string, gateway bool) (base, variant string) {
	if !gateway {
		return name, ""
	}
	base, variant, ok := strings.Cut(name, ":")
	switch {
	case ok && slices.Contains([]string{"free", "floor", "nitro", "online", "thinking", "extended", "exacto"}, variant):
		return base, variant
	}
	return name, ""
}

// makers are the providers that a bare name means: they made the model, and a
// gateway that calls it by its bare name passes their prices on.
func isMaker(provider string) bool {
	switch provider {
	case "openai", "anthropic", "gemini", "xai", "deepseek", "mistral", "moonshot", "zai", "minimax":
		return true
	}
	return false
}

// bare finds a model by its name without a provider.
func (c *Catalog) bare(name string) (Entry, bool) {
	made, hosted := c.named(name)
	switch {
	case len(made) == 1:
		return made[0], true
	case len(made) == 0 && len(hosted) == 1:
		e := hosted[0]
		e.Price, e.HourPrice = nil, nil
		return e, true
	}
	return Entry{}, false
}

// named returns the models of a bare name, those of their makers and the others.
func (c *Catalog) named(name string) (made, hosted []Entry) {
	for _, r := range c.rows {
		provider, model, ok := strings.Cut(r.key, "/")
		if !ok || model != name || isPriceOnly(r.key) {
			continue
		}
		if isMaker(provider) {
			made = append(made, r.entry)
		} else {
			hosted = append(hosted, r.entry)
		}
	}
	return made, hosted
}
