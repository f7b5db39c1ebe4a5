package operator

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"addon-operator/messages/view"
)

// logLevel is what people may change while the operator runs (J4). A change lasts until the next one, until its
// time is over, or until the process ends: it is never written anywhere.
type logLevel struct {
	log   *slog.Logger
	level *slog.LevelVar
	usual slog.Level // of the options

	mu    sync.Mutex // guards until, and is held while the level is set
	until time.Time  // when the usual level returns; zero for a change for good
}

// List implements server.Parameters.
func (l *logLevel) List() []view.Parameter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return []view.Parameter{{
		Name: "log.level", Help: "log level", Choices: []string{"debug", "info", "warn", "error"},
		Value: strings.ToLower(l.level.Level().String()), Default: strings.ToLower(l.usual.String()), Until: l.until,
	}}
}

// Set implements server.Parameters. When the time of a change is over, it counts only if no other one has followed.
func (l *logLevel) Set(_, value string, back time.Duration) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(value)) // one of the choices
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Time{}
	l.change(level)
	if back <= 0 || level == l.usual {
		return
	}
	until := time.Now().Add(back)
	l.until = until
	time.AfterFunc(back, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.until.Equal(until) {
			l.until = time.Time{}
			l.change(l.usual)
		}
	})
}

// change sets the level and logs it. The caller holds the mutex.
func (l *logLevel) change(level slog.Level) {
	if was := l.level.Level(); was != level {
		l.log.Info("parameter changed", "parameter", "log.level", "from", was, "to", level)
		l.level.Set(level)
	}
}
