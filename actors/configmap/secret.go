package configmap

// InitialSecret is the Secret as it was read at the start. Off: there is none to be read or
// written, until the end of the process: a right that is given later takes effect after a restart.
type InitialSecret struct {
	Data     map[string]string
	Revision string
	Off      bool
}

// Exists reports whether the Secret was there, or is not watched.
func (s InitialSecret) Exists() bool { return s.Off || s.Revision != "" }
