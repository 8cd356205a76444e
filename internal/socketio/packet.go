package socketio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// The types of Engine.IO's packets, their first byte.
const (
	engineOpen    = '0'
	engineClose   = '1'
	enginePing    = '2'
	enginePong    = '3'
	engineMessage = '4'
	engineUpgrade = '5'
	engineNoop    = '6'
	engineBinary  = 'b' // of long-polling: Base64 follows
)

// separator is between the packets of a long-polling payload.
const separator = '\x1e'

// The types of Socket.IO's packets, the first byte of a message.
const (
	typeConnect      = '0'
	typeDisconnect   = '1'
	typeEvent        = '2'
	typeAck          = '3'
	typeConnectError = '4'
	typeBinaryEvent  = '5'
	typeBinaryAck    = '6'
)

// maxDepth is how deep the JSON of a client may be nested.
const maxDepth = 128

// maxAckDigits is how long the id of an acknowledgement may be.
const maxAckDigits = 20

var (
	// errProtocol is what a client did that the protocols do not know.
	errProtocol = errors.New("the client broke the protocol")
	// errBinary is a binary packet: nothing that is served here has any.
	errBinary = errors.New("binary packets are not supported")
)

// packet is a Socket.IO packet without attachments.
type packet struct {
	kind      byte
	namespace string
	ack       string // digits, "" = none
	data      []byte // JSON, valid; nil = none
}

// parsePacket decodes a message: <type>[/namespace,][ack id][JSON].
func parsePacket(message []byte) (packet, error) {
	if len(message) == 0 || message[0] < typeConnect || message[0] > typeBinaryAck {
		return packet{}, fmt.Errorf("%w: not a packet's type", errProtocol)
	}
	p := packet{kind: message[0], namespace: "/"}
	if p.kind == typeBinaryEvent || p.kind == typeBinaryAck {
		return packet{}, errBinary
	}
	if !utf8.Valid(message) {
		return packet{}, fmt.Errorf("%w: not UTF-8", errProtocol)
	}
	rest := message[1:]
	if len(rest) > 0 && rest[0] == '/' {
		name, after, _ := bytes.Cut(rest, []byte(","))
		p.namespace, rest = string(name), after
	}
	digits := len(rest) - len(bytes.TrimLeft(rest, "0123456789"))
	if digits > maxAckDigits {
		return packet{}, fmt.Errorf("%w: the id of an acknowledgement is too long", errProtocol)
	}
	p.ack, rest = string(rest[:digits]), rest[digits:]
	if len(rest) == 0 {
		return p, nil
	}
	if tooDeep(rest) || !json.Valid(rest) {
		return packet{}, fmt.Errorf("%w: a packet's data is not JSON, or nested too deeply", errProtocol)
	}
	p.data = rest
	return p, nil
}

// event reads the data of an event: its name and its arguments.
func (p packet) event() (Event, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(p.data, &parts); err != nil || len(parts) == 0 {
		return Event{}, fmt.Errorf("%w: an event is no array with a name", errProtocol)
	}
	var name string
	if err := json.Unmarshal(parts[0], &name); err != nil || parts[0][0] != '"' || reserved(name) {
		return Event{}, fmt.Errorf("%w: not an event's name", errProtocol)
	}
	return Event{Name: name, Args: parts[1:]}, nil
}

// reserved are the names of what the client libraries themselves tell.
func reserved(name string) bool {
	switch name {
	case "connect", "connect_error", "disconnect", "disconnecting", "newListener", "removeListener":
		return true
	}
	return false
}

// object returns the data of a packet that may carry an object only.
func (p packet) object() (json.RawMessage, error) {
	if trimmed := bytes.TrimLeft(p.data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] != '{' {
		return nil, fmt.Errorf("%w: the data of a connect is no object", errProtocol)
	}
	return p.data, nil
}

// tooDeep reports whether JSON is nested deeper than maxDepth, before anything
// recurses into it.
func tooDeep(data []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// refusal is a CONNECT_ERROR for a namespace.
func refusal(namespace string, r *Refusal) (string, error) {
	body := struct {
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{r.Message, r.Data}
	text, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("encode a refusal: %w", err)
	}
	prefix := "44"
	if namespace != "/" {
		prefix += namespace + ","
	}
	return prefix + string(text), nil
}

// handshake is the data of the first packet of a connection.
func (s *session) handshake(upgrades string) string {
	c := s.server.config
	return `0{"sid":` + strconv.Quote(s.id) + `,"upgrades":[` + upgrades + `],"pingInterval":` + strconv.FormatInt(c.PingInterval.Milliseconds(), 10) +
		`,"pingTimeout":` + strconv.FormatInt(c.PingTimeout.Milliseconds(), 10) + `,"maxPayload":` + strconv.FormatInt(c.MaxPayload, 10) + `}`
}
