package bedrocktest

import (
	"bytes"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// Frame encodes one message of an event stream, with its checksums. messageType
// is "event", "exception" or "error"; typeHeader names the header that says which.
func Frame(enc *eventstream.Encoder, messageType, typeHeader, kind string, payload []byte) []byte {
	var b bytes.Buffer
	msg := eventstream.Message{Payload: payload}
	msg.Headers.Set(":message-type", eventstream.StringValue(messageType))
	msg.Headers.Set(typeHeader, eventstream.StringValue(kind))
	msg.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	if err := enc.Encode(&b, msg); err != nil {
		panic(http.ErrAbortHandler) // only headers that are too long
	}
	return b.Bytes()
}
