package helm

// Operation is a part of an Apply that takes time, as metrics and traces name it (I2).
type Operation string

// Operations.
const (
	Template     Operation = "template"      // load the chart and render it
	CheckUpgrade Operation = "check-upgrade" // read the state of the release and look for absent objects
	Upgrade      Operation = "upgrade"       // write: install or upgrade, Helm's hooks included
	// Fallback is what a plain upgrade cannot do: to mark an interrupted revision as failed,
	// to drop a corrupted record, to forget a failed first revision and install over it.
	Fallback Operation = "fallback"
)

// observed calls m.Began when an operation begins; the caller reports how it ended.
func (m Module) observed(o Operation) (ended func(error)) {
	if m.Began == nil {
		return func(error) {}
	}
	return m.Began(o)
}

// operationOf is what a step counts as.
func operationOf(s Step) Operation {
	if s == StepUnlock || s == StepReinstall {
		return Fallback
	}
	return Upgrade
}
