package local

// WithoutIDMap returns options for a backend that works as on a kernel without
// id-mapped mounts.
func WithoutIDMap(o Options) Options {
	o.noIDMap = true
	return o
}
