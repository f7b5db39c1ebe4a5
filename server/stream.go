package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
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
	streamHeartbeat = 5 * time.Second  // the script calls the page stale after 15
	streamWrite     = 10 * time.Second // for a client to read one event
	// streamTime is how long one stream lasts. The browser then connects again, and the request is
	// authorized again (J11), so that a token that was revoked does not read on without end.
	streamTime = time.Minute
)

// parts are what all readers of one address share. Looking at everything and rendering costs the
// same for one reader as for all, so it is done at most once a second, by the reader who comes
// first; the others wait for it at the mutex. The values are immutable, because readers keep them
// after the lock.
type parts struct {
	mu   sync.Mutex
	made time.Time
	now  overview
	html map[string]string // by the id of the element
}

// latest returns parts that are at most a second old; look is called if they are older.
func (p *parts) latest(look func() overview) (overview, map[string]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.html != nil && time.Since(p.made) < streamEvery {
		return p.now, p.html, nil
	}
	now, html := look(), map[string]string{}
	for _, name := range []string{"top", "rows", "queues"} {
		text, err := part(name, now)
		if err != nil {
			return now, nil, err
		}
		html[name] = text
	}
	p.made, p.now, p.html = time.Now(), now, html
	return now, html, nil
}

// part renders one part of the page.
func part(name string, data any) (string, error) {
	var out bytes.Buffer
	err := pageTemplate().ExecuteTemplate(&out, name, data)
	return out.String(), err
}

// stream sends the live page what changes, as server-sent events (J18): each is the HTML of parts, by
// the id of the element that they replace; one without parts only shows that the operator still
// answers. ?module=NAME chooses the module whose detail the reader sees: only that part is made for
// each reader. A reader is first sent all parts, and then only those that differ.
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
		sent := map[string]string{} // by id, before secrets were hidden
		tick := time.NewTicker(streamEvery)
		defer tick.Stop()
		for last := (time.Time{}); ; {
			event, err := s.event(r, shared, sent)
			if err != nil {
				return // the template is ours, and tested
			}
			if len(event) > 0 || time.Since(last) >= streamHeartbeat {
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

// event has the parts that a reader has not been sent yet. It notes them as sent.
func (s livePages) event(r *http.Request, shared *parts, sent map[string]string) (map[string]string, error) {
	now, html, err := shared.latest(s.overview)
	if err != nil {
		return nil, err
	}
	detail, err := part("detail", s.detail(now, r.URL.Query().Get("module")))
	if err != nil {
		return nil, err
	}
	event := map[string]string{}
	for id, text := range html {
		if sent[id] != text {
			event[id] = text
		}
	}
	if sent["detail"] != detail {
		event["detail"] = detail
	}
	maps.Copy(sent, event)
	return event, nil
}

// send writes an event, always without known secrets: discreet does not see it, and the page cannot
// ask to show them. The browser tries again half a second after the stream has ended (retry).
func (s livePages) send(w http.ResponseWriter, control *http.ResponseController, event map[string]string) error {
	for id, text := range event {
		if s.Hide != nil {
			text = s.Hide(text)
		}
		event[id] = view.Printable(text)
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
