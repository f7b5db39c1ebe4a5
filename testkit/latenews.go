package testkit

import "sync"

// lateNews delivers the events of watches, or keeps them while news are late: then the
// cluster has changed and lists show it, but no watch was notified. So is a real watch whose
// connection is slow.
type lateNews struct {
	mu      sync.Mutex // never held while an event is delivered: its receiver may write to the cluster
	holding bool
	held    []func() // in the order of their changes
}

// deliver is the Deliver of scenario.Cluster.
func (l *lateNews) deliver(event func()) {
	l.mu.Lock()
	holding := l.holding
	if holding {
		l.held = append(l.held, event)
	}
	l.mu.Unlock()
	if !holding {
		event()
	}
}

// hold keeps all events from now on, or delivers what was kept, in order, and keeps nothing any more.
func (l *lateNews) hold(holding bool) {
	l.mu.Lock()
	held := l.held
	l.holding, l.held = holding, nil
	l.mu.Unlock()
	for _, event := range held {
		event()
	}
}
