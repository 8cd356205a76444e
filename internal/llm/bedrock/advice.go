package bedrock

import (
	"encoding/json"
	"net/http"
	"strings"

	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// advise makes a message readable and adds what to do where a refusal is likely a
// matter of configuration.
func (m *Model) advise(e *llm.Error) {
	e.Message = innerMessage(e.Message)
	if e.NotSent || e.Status >= 300 && e.Status < 400 {
		return
	}
	if advice := m.advice(e, strings.ToLower(e.Message)); advice != "" {
		e.Message = failure.Bound(e.Message + " (" + advice + ")")
	}
}

func (m *Model) advice(e *llm.Error, text string) string {
	switch e.Class {
	case llm.ClassAuth:
		return m.authAdvice(text)
	case llm.ClassQuota:
		return "ask AWS for a higher quota of this model in the Service Quotas console of region " + m.region
	case llm.ClassBadRequest:
		return m.requestAdvice(e, text)
	}
	return ""
}

func (m *Model) authAdvice(text string) string {
	switch {
	case strings.Contains(text, "expired"):
		return "renew the AWS credentials; with SSO: aws sso login"
	case strings.Contains(text, "signature"):
		return "check the secret access key, and the clock of the server"
	case strings.Contains(text, "security token"), strings.Contains(text, "api key"), strings.Contains(text, "bearer"):
		return "check the access key, session token or Bedrock API key of the model"
	}
	return "ask for access to the model \"" + m.cfg.Model + "\" in the Bedrock console of region " + m.region +
		", and allow the identity bedrock:InvokeModel and bedrock:InvokeModelWithResponseStream"
}

func (m *Model) requestAdvice(e *llm.Error, text string) string {
	switch {
	case strings.Contains(text, "on-demand throughput"):
		return "use the id of an inference profile, such as " + geography(m.region) + strings.TrimPrefix(modelName(m.cfg.Model).id, "global.") +
			", or its ARN"
	case strings.Contains(text, "doesn't support tool use"), strings.Contains(text, "does not support tool use"):
		return "turn native tool calling off for this model"
	case strings.Contains(text, "model identifier is invalid"), e.Status == http.StatusNotFound, e.Status == http.StatusMethodNotAllowed:
		return "check the model id \"" + m.cfg.Model + "\", that region " + m.region + " has it, and the base URL if one is set"
	}
	return ""
}

// innerMessage takes the text out of the provider's JSON that Bedrock quotes in
// its own: The model returned the following errors: {"error":{"message":"..."}}.
func innerMessage(message string) string {
	const lead = "The model returned the following errors: "
	before, quoted, ok := strings.Cut(message, lead)
	if !ok || !strings.HasPrefix(quoted, "{") {
		return message
	}
	var o map[string]json.RawMessage
	if json.NewDecoder(strings.NewReader(quoted)).Decode(&o) != nil {
		return message
	}
	text := wire.Text(wire.Object(o["error"])["message"])
	if text == "" {
		text = wire.Text(o["message"])
	}
	if text == "" {
		return message
	}
	return before + lead + text
}
