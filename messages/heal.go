package messages

// ModuleGone notifies the healer that a module has no release to look after any more.
type ModuleGone struct{ Module string }

// ObjectsContested sends a module what another client undoes after each heal: a sentence for each object.
type ObjectsContested struct{ Objects []string }
