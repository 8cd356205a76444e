package client

// Schema is somebody else's JSON Schema of an object, against which arguments can be
// checked within bounds. It is for every tool whose schema was not written here.
type Schema struct{ inner *schema }

// CompileSchema reads a schema. The error says in words what is wrong with it: not an
// object's, not understood, nested too deeply, or referring to anything but itself.
// How long it may be is the caller's business.
func CompileSchema(raw []byte) (*Schema, error) {
	s, err := compile(raw)
	if err != nil {
		return nil, err
	}
	return &Schema{s}, nil
}

// Fit returns the arguments, with small mistakes of models mended where that makes
// them fit, or what is wrong with them in words for a model. args are what
// tool.DecodeArguments returns.
func (s *Schema) Fit(args map[string]any) (fitting map[string]any, problems []string) {
	return s.inner.fit(args)
}
