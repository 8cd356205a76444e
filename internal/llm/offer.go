package llm

// Offer is a model that users may choose.
type Offer struct {
	Provider string // the first part of the id
	Name     string // the rest
	// Verified says that the provider has an adapter of its own here, and that the
	// model is known to call tools, with its window and its prices.
	Verified bool
}

// ID is what a user configures: "provider/model".
func (o Offer) ID() string { return o.Provider + "/" + o.Name }

// Details are what is known of a model. Zero numbers and nil are not known.
type Details struct {
	Offer
	ContextWindow int64 // tokens of a prompt
	MaxOutput     int64 // tokens of one answer
	Vision        *bool // takes images
	Tools         *bool // has native tool calling
	Reasoning     *bool // thinks before it answers, or can
	PromptCache   *bool
	Price         *Price
}
