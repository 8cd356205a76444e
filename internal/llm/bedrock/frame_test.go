package bedrock_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// Headers of every kind stand beside those that are read.
func TestFrameHeaders(t *testing.T) {
	msg := eventstream.Message{Payload: []byte(`{"delta":{"text":"x"}}`)}
	for name, v := range map[string]eventstream.Value{
		"a": eventstream.BoolValue(true), "b": eventstream.BoolValue(false), "c": eventstream.Int8Value(1), "d": eventstream.Int16Value(1),
		"e": eventstream.Int32Value(1), "f": eventstream.Int64Value(1), "g": eventstream.BytesValue("xy"), "h": eventstream.StringValue(""),
		"i": eventstream.TimestampValue(time.Now()), "j": eventstream.UUIDValue{1}, ":event-type": eventstream.StringValue("contentBlockDelta"),
	} {
		msg.Headers.Set(name, v)
	}
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, msg); err != nil {
		t.Fatal(err)
	}
	b.Write(frames("messageStop", `{"stopReason":"end_turn"}`))
	resp, _, err := streamed(t, b.Bytes())
	if err != nil || resp.Message.Text() != "x" {
		t.Fatalf("%+v, %v", resp, err)
	}
}

// FuzzFrame holds our reading of headers beside the AWS SDK's: what it refuses is
// refused, and a frame that it takes, and that says nothing, hides nothing.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x01a\x07\x00\x01b"), []byte("x"))
	f.Add([]byte("\x01a\x00\x01b\x01\x01c\x02.\x01d\x03..\x01e\x04....\x01f\x05........"), []byte{})
	f.Add([]byte("\x01a\x06\x00\x02bc\x01d\x08........\x01e\x09................"), []byte("{}"))
	f.Add([]byte("\x01a\x0b"), []byte{})
	f.Fuzz(func(t *testing.T, headers, payload []byte) {
		if len(headers) > 1<<10 || len(payload) > 1<<10 {
			return
		}
		raw := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
		raw = binary.BigEndian.AppendUint32(raw, uint32(len(headers)))
		raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
		raw = append(append(raw, headers...), payload...)
		raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
		msg, sdk := eventstream.NewDecoder().Decode(bytes.NewReader(raw), nil)
		if sdk == nil && (msg.Headers.Get(":message-type") != nil || msg.Headers.Get(":event-type") != nil) {
			checkAnswer(t, raw)
			return
		}
		body := append(raw, frames("contentBlockDelta", `{"delta":{"text":"behind"}}`, "messageStop", `{}`)...)
		_, said, err := answerTo(t, body)
		if err == nil && (sdk != nil || said != "behind") {
			t.Fatalf("said %q, the SDK says %v", said, sdk)
		}
	})
}
