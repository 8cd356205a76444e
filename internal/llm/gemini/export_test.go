package gemini

import "encoding/json"

// Forms that the tests of the schema converter choose from.
const (
	FormJSON    = int(formJSON)
	FormProto   = int(formProto)
	FormShallow = int(formShallow)
)

// ConvertSchema is convertSchema.
func ConvertSchema(raw json.RawMessage, f int) json.RawMessage { return convertSchema(raw, form(f)) }
