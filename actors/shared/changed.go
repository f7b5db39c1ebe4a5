package shared

import (
	"maps"
	"time"

	"addon-operator/supervisor"
)

// ChangedModules are those whose objects are to be compared. All actors note them, in the middle of
// their handlers, so noting must not block and must not cost a message each time.
type ChangedModules struct{ noted supervisor.Shared[Changes] }

// notePause is the shortest time between two writes of an object.
const notePause = time.Second

// Changes is what was noted.
type Changes struct {
	wake  func()          // nil: no one looks
	Names map[string]bool // not written to
	All   bool
}

// Note marks a module for the next comparison; an empty name stands for all. The first note after a
// comparison starts the timer, which all later ones share.
func (c *ChangedModules) Note(name string) {
	var wake func()
	c.noted.Change(func(now Changes) Changes {
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
func (c *ChangedModules) Take(wake func()) (taken Changes) {
	c.noted.Change(func(now Changes) Changes {
		taken = now
		return Changes{wake: wake, Names: map[string]bool{}}
	})
	return taken
}
