package messages

import "time"

// ListConverges asks converge what the last reloads of all modules did. The answer is [Converges].
type ListConverges struct{}

// Converges are the last reloads, the newest first.
type Converges struct{ List []ConvergeRecord }

// ConvergeRecord is one reload of all modules; the first one includes the start-up.
type ConvergeRecord struct {
	Reload int
	Cause  Cause
	Began  time.Time
	// Ended is zero while the reload lasts; Overtaken: the next one began before it had ended.
	Ended     time.Time
	Overtaken bool
	// Steps are tasks of it that have ended, in the order of their ends. Cut is how many more there were.
	Steps []Step
	Cut   int
}

// StepEnded says to converge that a task of a reload has ended.
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
	// Cancelled: it was given up before its end.
	Cancelled bool
	// Parts are hooks and Helm, in the order of their ends. Cut is how many more there were.
	Parts []Part
	Cut   int
}

// Part is a hook that a task has run, or what it did with Helm.
type Part struct {
	Hook  string // empty: Helm
	Began time.Time
	Took  time.Duration
}
