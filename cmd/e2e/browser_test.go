package e2e

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser is a page in a headless Chromium, spoken to over a pipe in its DevTools protocol: the few words that these
// tests need.
type browser struct {
	t       *testing.T
	fixture *fixture
	orders  io.Writer // a zero byte ends each message
	session string    // of the page

	mu       sync.Mutex
	asked    int
	answers  map[int]chan json.RawMessage
	problems []string // errors on the console and exceptions, whole
}

// chromium is the program, or "" where there is none.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// browse opens a page. Where there is no browser the test is skipped, unless $CHROMIUM says that there must be one.
func (h *fixture) browse(url string) *browser {
	t := h.t.(*testing.T)
	t.Helper()
	program := chromium()
	if program == "" {
		if os.Getenv("CHROMIUM") == "required" {
			t.Fatal("there is no chromium")
		}
		t.Skip("there is no chromium: apt-get install chromium")
	}
	orders, err1 := pipe(t)
	answers, err2 := pipe(t)
	must(t, errors.Join(err1, err2))
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--remote-debugging-pipe", "--user-data-dir="+h.path("browser"), "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{orders.reads, answers.writes} // 3 and 4, where the browser expects them
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its children
		_ = cmd.Wait()
	})
	b := &browser{t: t, fixture: h, orders: orders.writes, answers: map[int]chan json.RawMessage{}}
	go b.listen(answers.reads)
	b.connect()
	b.open(url)
	return b
}

// ends are the two ends of a pipe.
type ends struct{ reads, writes *os.File }

// pipe makes a pipe that is closed with the test.
func pipe(t *testing.T) (p ends, err error) {
	p.reads, p.writes, err = os.Pipe()
	t.Cleanup(func() { _, _ = p.reads.Close(), p.writes.Close() })
	return p, err
}

// connect speaks to the only page of the browser.
func (b *browser) connect() {
	b.t.Helper()
	var targets struct {
		TargetInfos []struct{ Type, TargetID string }
	}
	isPage := func(target struct{ Type, TargetID string }) bool { return target.Type == "page" }
	b.fixture.eventually("a page in the browser", func() error {
		b.ask("Target.getTargets", struct{}{}, &targets)
		if !slices.ContainsFunc(targets.TargetInfos, isPage) {
			return errNotYet
		}
		return nil
	})
	page := targets.TargetInfos[slices.IndexFunc(targets.TargetInfos, isPage)]
	var attached struct{ SessionID string }
	b.ask("Target.attachToTarget", map[string]any{"targetId": page.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.ask(domain+".enable", struct{}{}, nil)
	}
}

// listen hands out answers, and remembers what a person would see in red on the console.
func (b *browser) listen(answers io.Reader) {
	reader := bufio.NewReader(answers)
	for {
		data, err := reader.ReadBytes(0)
		if err != nil {
			return // the test has ended
		}
		var message struct {
			ID             int
			Method         string
			Params, Result json.RawMessage
			Error          json.RawMessage
		}
		if json.Unmarshal(data[:len(data)-1], &message) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case message.ID > 0 && message.Error != nil:
			b.answers[message.ID] <- nil
		case message.ID > 0:
			b.answers[message.ID] <- message.Result
		case message.Method == "Runtime.exceptionThrown", message.Method == "Log.entryAdded" && strings.Contains(string(message.Params), `"level":"error"`):
			b.problems = append(b.problems, string(message.Params))
		}
		b.mu.Unlock()
	}
}

// ask gives an order to the browser and waits for the answer.
func (b *browser) ask(method string, params, answer any) {
	b.t.Helper()
	if err := b.mayAsk(method, params, answer); err != nil {
		b.t.Fatal(err)
	}
}

// mayAsk is ask that returns the refusal of the browser.
func (b *browser) mayAsk(method string, params, answer any) error {
	b.t.Helper()
	got := make(chan json.RawMessage, 1)
	b.mu.Lock()
	b.asked++
	id := b.asked
	b.answers[id] = got
	order := map[string]any{"id": id, "method": method, "params": params}
	if b.session != "" {
		order["sessionId"] = b.session
	}
	text, err := json.Marshal(order)
	if err == nil {
		_, err = b.orders.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		b.t.Fatal(err)
	}
	select {
	case result := <-got:
		if result == nil {
			return fmt.Errorf("the browser refuses %s %v", method, params)
		}
		if answer != nil {
			if err := json.Unmarshal(result, answer); err != nil {
				b.t.Fatal(err)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("the browser does not answer %s", method)
	}
	return nil
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.ask("Page.navigate", map[string]any{"url": url}, nil)
}

// eval is the value of an expression, as JSON; a promise is waited for.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	value, err := b.try(expression)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// try is eval that returns the exception of an expression that throws, and the refusal of a page that is being left.
func (b *browser) try(expression string) (string, error) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	if err := b.mayAsk("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer); err != nil {
		return "", err
	}
	if answer.ExceptionDetails != nil {
		return "", fmt.Errorf("%.200s: %s", expression, answer.ExceptionDetails)
	}
	return string(answer.Result.Value), nil
}

// await waits until an expression is true. One that throws is not true yet: while a page loads, it lacks elements.
func (b *browser) await(expression string) {
	b.t.Helper()
	b.fixture.eventually("in the browser: "+expression, func() error {
		value, err := b.try("Boolean(" + expression + ")")
		if err != nil {
			return err
		}
		if value != "true" {
			text, _ := b.try("document.body ? document.body.innerText : ''") // of a page that may be left meanwhile
			return fmt.Errorf("the page is:\n%s", text)
		}
		return nil
	})
}

// key presses a key.
func (b *browser) key(key string) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.ask("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key}, nil)
	}
}

// screen sets the size of the window and the colours that the person prefers.
func (b *browser) screen(width, height int, scheme string) {
	b.t.Helper()
	b.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.ask("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// screenshot keeps a picture in the directory $SCREENSHOTS, if there is one.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.ask("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil || len(picture) == 0 {
		b.t.Fatalf("no picture: %v", err)
	}
	if dir := os.Getenv("SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// console is what a person would see in red, without the connections that a stopped operator refuses.
func (b *browser) console() (problems []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		if !regexp.MustCompile(`net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE)`).MatchString(p) {
			problems = append(problems, p)
		}
	}
	return problems
}
