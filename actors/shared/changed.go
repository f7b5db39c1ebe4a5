package shared

import (
	"maps"
	"time"

	"addon-operator/supervisor"
)

// changedModules are those whose objects are to be compared. All actors note them, in the middle of
// their handlers, so noting must not block and must not cost a message each time.
type changedModules struct{ noted supervisor.Shared[changes] }

// notePause is the shortest time between two writes of an object.
const notePause = time.Second

type changes struct {
	wake  func()          // nil: no one looks
	Names map[string]bool // not written to
	All   bool
}

// Note marks a module for the next comparison; an empty name stands for all. The first note after a
// comparison starts the timer, which all later ones share.
func (c *changedModules) Note(name string) {
	var wake func()
	c.noted.Change(func(now changes) changes {
		wake = nil
		if now.wake == nil || now.All || now.Names[name] {
			return now
		}
		if len(now.Names) == 0 {
			wake = now.wake // what is noted later comes with it
		}
		if now.All = name == ""; !now.All {
			now.Names = maps.Clone(now.Names)
			now.Names[name] = true
		}
		return now
	})
	if wake != nil {
		time.AfterFunc(notePause, wake)
	}
}

// Take returns what was noted since the last time, and begins again. From then on wake is called
// for what is new.
func (c *changedModules) Take(wake func()) (taken changes) {
	c.noted.Change(func(now changes) changes {
		taken = now
		return changes{wake: wake, Names: map[string]bool{}}
	})
	return taken
}
