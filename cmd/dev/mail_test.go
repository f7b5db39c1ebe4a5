package dev

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Who posts never waits. Above the limit facts are dropped, and counted; the last answers and findings are there.
func TestMailHasABound(t *testing.T) {
	m := newMail(10)
	for i := range 100 {
		m.post(record{"msg": fmt.Sprint(i)})
		m.post(answers{Queues: answers{}.Queues, Converge: struct {
			Done bool `json:"STARTUP_CONVERGE_DONE"`
		}{i == 99}})
		m.post(linted{module: "web", first: i == 99})
		m.post(linted{module: "db", first: i == 99})
	}
	events, dropped := m.take()
	if len(events) > 20 || dropped < 80 {
		t.Errorf("%d events wait, %d were dropped", len(events), dropped)
	}
	last := map[string]bool{}
	for _, event := range events {
		switch e := event.(type) {
		case answers:
			last["answers"] = e.Converge.Done
		case linted:
			last[e.module] = e.first
		}
	}
	if !last["answers"] || !last["web"] || !last["db"] {
		t.Errorf("the last ones are missing: %v", last)
	}
	if events, dropped := m.take(); len(events) > 0 || dropped > 0 || !m.empty() {
		t.Errorf("%v, %d dropped are left", events, dropped)
	}
}

// blocked is a screen of a terminal that does not read until it is told to.
type blocked struct {
	reads chan struct{}
	mu    sync.Mutex
	out   bytes.Buffer
}

func (b *blocked) show(f fact) {
	<-b.reads
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintln(&b.out, f.Text)
}
func (*blocked) update(state) {}

// A terminal that does not read stops neither the log nor the hooks of the operator, and when it reads again it says what is
// missing.
func TestATerminalThatDoesNotRead(t *testing.T) {
	screen := &blocked{reads: make(chan struct{})}
	s := &session{place: &place{}, screen: screen, mail: newMail(100), nudge: make(chan struct{}, 1), board: newBoard()}
	ctx, stop := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { s.loop(ctx) })
	log := recorder{s.post}
	for i := range 5000 {
		if _, err := fmt.Fprintf(log, `{"level":"INFO","msg":"line %d"}`, i); err != nil {
			t.Fatal(err)
		}
	}
	close(screen.reads)
	stop() // what waits is shown before the end
	loop.Wait()
	if text := screen.out.String(); !strings.Contains(text, "line 0\n") || !strings.Contains(text, " events are not shown: ") {
		t.Errorf("shown is %s", text)
	}
}
