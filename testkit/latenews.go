package testkit

import "sync"

// lateNews delivers the events of watches, or keeps them while news are late: then the
// cluster has changed and lists show it, but no watch was notified.
type lateNews struct {
	mu      sync.Mutex
	holding bool
	held    []func()
}

func (l *lateNews) tell(news func()) {
	l.mu.Lock()
	if l.holding {
		l.held = append(l.held, news)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	news()
}

// hold puts all news aside from now on.
func (l *lateNews) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding = true
}

// deliver notifies what was kept, in order, and holds nothing back any more.
func (l *lateNews) deliver() {
	l.mu.Lock()
	held := l.held
	l.holding, l.held = false, nil
	l.mu.Unlock()
	for _, news := range held {
		news()
	}
}
