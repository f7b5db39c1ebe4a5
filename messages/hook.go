package messages

// BindingKey names a kubernetes binding of a hook by its place in the hook's
// configuration, because names may repeat.
type BindingKey struct {
	Hook  string
	Index int
}

// BindingSynchronized notifies an owner that the Synchronization of one binding has succeeded, or
// was not wanted. Late: it was deferred, so whatever ran without the hook is due again.
type BindingSynchronized struct {
	Binding BindingKey
	Late    bool
	Task    string // of the run that sends it
}

// BindingDeferred notifies an owner that it must not wait for a binding: its kind does not exist
// yet, or the operator may not list it. Only its own hook waits for it.
type BindingDeferred struct {
	Binding BindingKey
	Task    string // of the run that sends it
}

// AwaitSynchronized asks an owner to queue the Synchronization runs that belong in
// named queues, unless they are queued or done, and to answer as
// soon as every binding that must be waited for is synchronized (F13, F14, X22).
type AwaitSynchronized struct {
	Task string // of the run that asks
	// Trace is the span that waits; the runs become parts of it (see Task.Trace).
	Trace string
}
