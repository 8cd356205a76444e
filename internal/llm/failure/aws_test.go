package failure_test

import (
	"net/http"
	"strings"
	"testing"

	"parley/internal/llm"
	"parley/internal/llm/failure"
)

// AWS names an error in a header, and describes it in the body.
func TestAWS(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		class  llm.Class
		text   string
	}{
		{"ThrottlingException", 429, `{"message":"Too many tokens, please wait before trying again."}`, llm.ClassRateLimit, "Too many tokens"},
		{"ThrottlingException", 400, `{"message":"Rate exceeded"}`, llm.ClassRateLimit, "Rate"},
		{"ModelNotReadyException", 429, `{"message":"Model is not ready for inference."}`, llm.ClassRateLimit, "not ready"},
		{"ModelTimeoutException", 408, `{"message":"Model has timed out in processing the request."}`, llm.ClassTimeout, "timed out"},
		{"ModelErrorException", 424, `{"message":"The system encountered an unexpected error during processing.","originalStatusCode":500}`, llm.ClassOverloaded, "unexpected"},
		{"ServiceUnavailableException", 503, `{"Message":"Bedrock is unable to process your request."}`, llm.ClassOverloaded, "unable"},
		{"InternalServerException", 500, `{}`, llm.ClassOverloaded, "InternalServerException"},
		{"AccessDeniedException", 403, `{"Message":"User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel"}`, llm.ClassAuth, "not authorized"},
		{"AccessDeniedException", 400, `{"message":"You don't have access to the model with the specified model ID."}`, llm.ClassAuth, "access"},
		{"ExpiredTokenException", 403, `{"message":"The security token included in the request is expired"}`, llm.ClassAuth, "expired"},
		{"UnrecognizedClientException:http://internal.amazon.com/coral/", 403, `{"message":"The security token included in the request is invalid."}`, llm.ClassAuth, "invalid"},
		{"ServiceQuotaExceededException", 400, `{"message":"Your request exceeds the service quota for your account."}`, llm.ClassQuota, "quota"},
		{"ResourceNotFoundException", 404, `{"message":"Could not resolve the foundation model from the provided model identifier."}`, llm.ClassBadRequest, "resolve"},
		{"UnknownOperationException", 404, ``, llm.ClassBadRequest, "UnknownOperationException"},
		{"ValidationException", 400, `{"message":"Input is too long for requested model."}`, llm.ClassContext, "too long"},
		{"ValidationException", 400, `{"message":"Expected toolResult blocks at messages.2.content for the following Ids: tooluse_x"}`, llm.ClassMalformed, "tooluse_x"},
		{"ValidationException", 400, `{"message":"The text field in the ContentBlock object at messages.0.content.0 is blank. Add text to the text field, and try again."}`, llm.ClassMalformed, "blank"},
		{"ValidationException", 400, `{"message":"This model doesn't support tool use in streaming mode."}`, llm.ClassBadRequest, "streaming"},
		{"ValidationException", 400, `{"message":"Invocation of model ID x with on-demand throughput isn't supported."}`, llm.ClassBadRequest, "on-demand"},
		{"ValidationException", 400, `{"message":"The model returned the following errors: Output blocked by content filtering policy"}`, llm.ClassContentPolicy, "blocked"},
	}
	for _, tt := range tests {
		h := http.Header{"X-Amzn-Errortype": {tt.name}}
		e := failure.Response(tt.status, h, []byte(tt.body), now)
		if e.Class != tt.class || !strings.Contains(e.Message, tt.text) {
			t.Errorf("%s %d: got %s %q, want %s with %q", tt.name, tt.status, e.Class, e.Message, tt.class, tt.text)
		}
	}
}

// Inside a stream the name is all there is.
func TestAWSInStream(t *testing.T) {
	tests := map[string]llm.Class{
		`{"message":"Too many tokens, please wait before trying again.","type":"throttlingException"}`: llm.ClassRateLimit,
		`{"message":"x","type":"modelStreamErrorException"}`:                                           llm.ClassOverloaded,
		`{"message":"x","type":"internalServerException"}`:                                             llm.ClassOverloaded,
		`{"message":"x","type":"serviceUnavailableException"}`:                                         llm.ClassOverloaded,
		`{"message":"x","type":"modelTimeoutException"}`:                                               llm.ClassTimeout,
		`{"message":"x","type":"validationException"}`:                                                 llm.ClassBadRequest,
		`{"message":"prompt is too long","type":"validationException"}`:                                llm.ClassContext,
		`{"message":"x","__type":"com.amazon.coral#ExpiredTokenException"}`:                            llm.ClassAuth,
	}
	for body, class := range tests {
		if e := failure.Payload([]byte(body)); e.Class != class {
			t.Errorf("%s: got %s, want %s", body, e.Class, class)
		}
	}
}
