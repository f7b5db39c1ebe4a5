package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"addon-operator/messages/view"
)

// livePath is where the script of the live page reads changes.
const livePath = "/live"

// How often a live page is sent what has changed and, when nothing has, that the operator still
// answers.
const (
	streamEvery     = time.Second
	streamHeartbeat = 15 * time.Second
	streamWrite     = 10 * time.Second // for a client to read one event
	// streamTime is how long one stream lasts. The browser then connects again, and the request is
	// authorized again (J11), so that a token that was revoked does not read on without end.
	streamTime = time.Minute
)

// change is one event for the live page: the HTML of parts, by the id of the element that they
// replace, and the order of the rows when it differs from the last one sent. An event with neither
// is a heartbeat.
type change struct {
	Parts map[string]string `json:"parts,omitempty"`
	Order []string          `json:"order,omitzero"` // nil: as it was; empty: there are no rows
}

// parts are what all readers of one address share. Looking at everything and rendering costs the
// same for one reader as for all, so it is done at most once a second, by the reader who comes
// first; the others wait for it at the mutex.
type parts struct {
	mu   sync.Mutex
	made time.Time
	now  moment
	rows map[string]row
}

// moment is what the page shows at one moment. It is immutable, because readers keep it after the
// lock.
type moment struct {
	overview
	html  map[string]string // by identifier of the part
	order []string          // of the rows
}

// row is a row of the table, and what it was made of. It is reused while the module has not
// changed.
type row struct {
	of   moduleRow
	html string
}

// latest returns parts that are at most a second old; look is called if they are older.
func (p *parts) latest(look func() overview) (moment, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.html != nil && time.Since(p.made) < streamEvery {
		return p.now, nil
	}
	now := moment{overview: look(), html: map[string]string{}}
	for _, name := range []string{"top", "queues", "converged"} {
		text, err := part(name, now.overview)
		if err != nil {
			return moment{}, err
		}
		now.html[name] = text
	}
	rows := make(map[string]row, len(now.Modules))
	for _, m := range now.Modules {
		made, known := p.rows[m.Name]
		if !known || !reflect.DeepEqual(made.of, m) {
			text, err := part("row", m)
			if err != nil {
				return moment{}, err
			}
			made = row{m, text}
		}
		rows[m.Name] = made
		id := "m-" + m.Name
		now.html[id], now.order = made.html, append(now.order, id)
	}
	p.made, p.now, p.rows = time.Now(), now, rows
	return now, nil
}

// part renders one part of the page.
func part(name string, data any) (string, error) {
	var out bytes.Buffer
	err := pageTemplate().ExecuteTemplate(&out, name, data)
	return out.String(), err
}

// stream sends the live page what changes, as server-sent events (J18). ?module=NAME chooses the
// module whose detail the reader sees: only that part is made for each reader. A reader is first
// sent all parts, since nothing was sent before, and then only those that differ.
func (s livePages) stream() http.Handler {
	shared := &parts{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Time{}) // the request has been read; a recorder of tests has no deadlines
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Accel-Buffering", "no") // for proxies that collect answers
		ctx, cancel := context.WithTimeout(r.Context(), streamTime)
		defer cancel()
		reader := reader{parts: map[string]string{}}
		tick := time.NewTicker(streamEvery)
		defer tick.Stop()
		for last := (time.Time{}); ; {
			event, err := s.event(r, shared, &reader)
			if err != nil {
				return // the template is ours, and tested
			}
			if len(event.Parts) > 0 || event.Order != nil || time.Since(last) >= streamHeartbeat {
				last = time.Now()
				if s.send(w, control, event) != nil {
					return
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// reader is what one page has been sent: by id, the HTML before secrets were hidden.
type reader struct {
	parts map[string]string
	order []string
}

// event is what the reader has not been sent yet. It notes it as sent.
func (s livePages) event(r *http.Request, shared *parts, to *reader) (event change, err error) {
	now, err := shared.latest(s.overview)
	if err != nil {
		return event, err
	}
	detail, err := part("detail", s.detail(r.Context(), now.overview, r.URL.Query().Get("module")))
	if err != nil {
		return event, err
	}
	event.Parts = map[string]string{}
	to.add(&event, "detail", detail)
	for id, text := range now.html {
		to.add(&event, id, text)
	}
	if !slices.Equal(now.order, to.order) {
		event.Order = append([]string{}, now.order...) // never nil
		to.order = now.order
		// A row that is gone is forgotten, so that it is sent when a module of this name comes
		// back.
		for id := range to.parts {
			if _, there := now.html[id]; !there && id != "detail" {
				delete(to.parts, id)
			}
		}
	}
	return event, nil
}

// add adds a part to the event if the reader has another one.
func (to *reader) add(event *change, id, text string) {
	if to.parts[id] != text {
		to.parts[id], event.Parts[id] = text, text
	}
}

// send writes an event, always without known secrets: discreet does not see it, and the page cannot
// ask to show them. The browser tries again half a second after the stream has ended (retry).
func (s livePages) send(w http.ResponseWriter, control *http.ResponseController, event change) error {
	for id, text := range event.Parts {
		if s.Hide != nil {
			text = s.Hide(text)
		}
		event.Parts[id] = view.Printable(text)
	}
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	_ = control.SetWriteDeadline(time.Now().Add(streamWrite)) // a recorder of tests has none
	if _, err := fmt.Fprintf(w, "retry: 500\ndata: %s\n\n", data); err != nil {
		return err
	}
	return control.Flush()
}
