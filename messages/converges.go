package messages

import "time"

// ListConverges asks converge what the last reloads of all modules did. The answer is [Converges].
type ListConverges struct{}

// Converges are the last reloads, the newest first.
type Converges struct{ List []ConvergeRecord }

// ConvergeRecord is one reload of all modules; the first one includes the start-up (J21).
type ConvergeRecord struct {
	Reload int
	Cause  Cause
	Began  time.Time
	// Ended is zero while the reload lasts. Overtaken: the next one began before it had ended.
	Ended     time.Time
	Overtaken bool
	// Steps are its tasks that have ended, in the order of their ends. Cut is the number of those
	// left out.
	Steps []Step
	Cut   int
}

// StepEnded notifies converge that a task of a reload has ended.
type StepEnded struct {
	Reload int
	Step   Step
}

// Step is a task of a reload that has ended.
type Step struct {
	// Task names the work, Owner and Queue are those of the task.
	Task, Owner, Queue string
	// Began is the beginning of the first attempt, Failed how many attempts have failed.
	Began, Ended time.Time
	Failed       int
	// Cancelled: the task was ended before it had succeeded.
	Cancelled bool
	// Parts are the hooks and Helm, in the order of their ends. Cut is the number of those left
	// out.
	Parts []Part
	Cut   int
}

// Part is a hook that a task has run, or its work with Helm.
type Part struct {
	Hook  string // empty: Helm
	Began time.Time
	Took  time.Duration
}

// SetDynamicFlags carries the opinions of global hooks on enabled modules (D25), by flag key, and
// which hook has said each.
type SetDynamicFlags struct {
	Flags map[string]bool
	By    map[string]string
}

// AfterAllEnded notifies converge that an afterAll hook of a reload has succeeded.
type AfterAllEnded struct {
	Reload int
	// GlobalChanged: the afterAll hooks of this reload changed global values, so steps 3 to 8 are due again.
	GlobalChanged bool
}

// RequestReload asks converge to do steps 3 to 8 for all modules (seed 001 'reload all modules').
type RequestReload struct{ Cause Cause }

// Converged says that the first converge is over: ticks of schedules count from now on (C14).
type Converged struct{}
