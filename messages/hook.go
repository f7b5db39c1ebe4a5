package messages

// BindingKey names a kubernetes binding of a hook by its place in the hook's
// configuration, because names may repeat.
type BindingKey struct {
	Hook  string
	Index int
}

// BindingSettled notifies an owner that a binding need not be waited for: its Synchronization has succeeded, or was not
// wanted; or it is deferred, because its kind does not exist yet, or the operator may not list it. Then only its own hook
// waits for it.
type BindingSettled struct {
	Binding  BindingKey
	Deferred bool
	Late     bool   // it was deferred, so whatever ran without the hook is due again
	Task     string // of the run that sends it
}

// AwaitSynchronized asks an owner to queue the Synchronization runs that belong in
// named queues, unless they are queued or done, and to answer as
// soon as every binding that must be waited for is synchronized (F13, F14, X22).
type AwaitSynchronized struct {
	Task string // of the run that asks
	// Trace is the span that waits; the runs become parts of it (see Task.Trace).
	Trace string
}
