package messages

// SectionChanged says to converge that hooks have changed the section of a module with an enabled script.
type SectionChanged struct {
	Module string
	Cause  Cause
}

// SuspensionChanged notifies converge which modules are suspended, by objects of kind Module (H27).
type SuspensionChanged struct{ Names map[string]bool }
