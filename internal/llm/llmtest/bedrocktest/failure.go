package bedrocktest

import (
	"fmt"
	"net/http"
	"strconv"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

// failure is an answer outside 2xx in the service's shape.
type failure struct {
	status  int
	name    string
	message string
}

func invalid(format string, args ...any) *failure {
	return &failure{http.StatusBadRequest, "ValidationException", fmt.Sprintf(format, args...)}
}

func (f *failure) write(w http.ResponseWriter) {
	body, _ := content.Marshal(map[string]string{"message": f.message}) // strings are always encoded
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", f.name+":http://internal.amazon.com/coral/com.amazon.bedrock/")
	w.WriteHeader(f.status)
	_, _ = w.Write(body)
}

// failed is how the service reports a class; nil for those that it shows
// otherwise.
func failed(class llm.Class) *failure {
	switch class {
	case llm.ClassAuth:
		return &failure{http.StatusForbidden, "AccessDeniedException", "You don't have access to the model with the specified model ID."}
	case llm.ClassQuota:
		return &failure{http.StatusBadRequest, "ServiceQuotaExceededException", "Your request exceeds the service quota for your account."}
	case llm.ClassRateLimit:
		return &failure{http.StatusTooManyRequests, "ThrottlingException", "Too many tokens, please wait before trying again."}
	case llm.ClassOverloaded:
		return &failure{http.StatusServiceUnavailable, "ServiceUnavailableException", "Bedrock is unable to process your request."}
	case llm.ClassTimeout:
		return &failure{http.StatusRequestTimeout, "ModelTimeoutException", "Model has timed out in processing the request. Try your request again."}
	case llm.ClassContext:
		return invalid("Input is too long for requested model.")
	case llm.ClassMalformed:
		return invalid("Expected toolResult blocks at messages.2.content for the following Ids: tooluse_1")
	case llm.ClassBadRequest:
		return &failure{http.StatusNotFound, "ResourceNotFoundException", "Could not resolve the foundation model from the provided model identifier."}
	}
	return nil
}

// fail answers with a failure of the reply's class.
func fail(w http.ResponseWriter, reply llmtest.Reply, stream bool) {
	if reply.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(reply.RetryAfter.Seconds())))
	}
	if f := failed(reply.Fail); f != nil {
		f.write(w)
		return
	}
	switch reply.Fail {
	case llm.ClassContentPolicy:
		send(w, stream, llmtest.Reply{}, "content_filtered")
	case llm.ClassNoResponse:
		send(w, stream, llmtest.Reply{}, "end_turn")
	default:
		panic(http.ErrAbortHandler) // the connection breaks
	}
}
