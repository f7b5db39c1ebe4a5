package messages

// SectionChanged says to converge that hooks have changed the section of a module with an enabled script.
type SectionChanged struct {
	Module string
	Cause  Cause
	Run    bool // the module is to run with it
}

// ScriptAgreed says to a module whose section has changed that its script still says true.
type ScriptAgreed struct{ Cause Cause }

// SuspensionChanged notifies converge which modules are suspended, by objects of kind Module (H27).
type SuspensionChanged struct{ Names map[string]bool }
