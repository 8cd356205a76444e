package gemini

import (
	"strings"

	"parley/internal/llm"
	"parley/internal/llm/failure"
)

// ended maps the finish reason to the names of llm.Response. Errors are *llm.Error:
// an answer that the API broke off, or that has nothing in it.
func (a *answer) ended() (string, error) {
	said, called := len(a.Text) > 0, len(a.calls.all) > 0
	if !a.candidates {
		return "", a.failed(llm.ClassNoResponse, "Google answered without a candidate")
	}
	switch a.finish {
	case "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE":
		// Also where calls can be read: the API says that they are not what the
		// model meant.
		return "", a.failed(llm.ClassNoResponse, "the model made a tool call that cannot be read")
	case "MISSING_THOUGHT_SIGNATURE":
		return "", a.failed(llm.ClassMalformed, "Google misses a signature in the history")
	case "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "SPII", "BLOCKLIST", "LANGUAGE",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		if !said && !called {
			return "", a.failed(llm.ClassContentPolicy, "Google's filter stopped the answer")
		}
		return "content_filter", nil
	case "MAX_TOKENS":
		return "length", nil
	case "STOP", "":
		return a.stopped(said, called)
	}
	// UNEXPECTED_TOOL_CALL and TOO_MANY_TOOL_CALLS bring the calls along, mostly;
	// the agent tells the model that there is no such tool.
	if called {
		return "tool_calls", nil
	}
	if !said {
		return "", a.failed(llm.ClassNoResponse, "Google ended the answer before it began")
	}
	return strings.ToLower(a.finish), nil
}

// stopped is the ordinary end. Thoughts without an answer are left to the caller:
// they may have been shown already.
func (a *answer) stopped(said, called bool) (string, error) {
	switch {
	case called:
		return "tool_calls", nil
	case !said && len(a.Reasoning) == 0:
		return "", a.failed(llm.ClassNoResponse, "Google sent an empty answer")
	}
	return "stop", nil
}

func (a *answer) failed(class llm.Class, what string) *llm.Error {
	if a.finish != "" {
		what += ": " + reasonText(a.finish, a.message)
	}
	return &llm.Error{Class: class, Message: failure.Bound(what)}
}

func reasonText(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + " (" + message + ")"
}
