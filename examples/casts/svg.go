package main

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
	"time"

	"github.com/hinshun/vt10x"
)

// maxBytes bounds a picture, and maxFrames what is in it: a page loads all of its pictures.
const (
	maxBytes  = 60_000
	maxFrames = 25

	// Sizes in units of the picture, which scales with the page.
	cellWidth, cellHeight, margin = 8.4, 18, 12

	// How long a frame is shown, however long it took, and how long the last one: a plan of 25
	// lines is to be read.
	shortest, longest, atEnd = 600 * time.Millisecond, 2 * time.Second, 12 * time.Second
)

// frame is what a screen showed from a time on: the SVG of each row, "" for an empty one. Frames
// can be compared.
type frame struct {
	at   time.Time
	rows [rows]string
}

// frameOf reads the screen, row by row, up to the last character of each.
func frameOf(screen vt10x.Terminal) (f frame) {
	// The screen is written to by the goroutine of a command.
	screen.Lock()
	defer screen.Unlock()
	for y := range rows {
		var line [columns]vt10x.Glyph
		end := 0
		for x := range columns {
			if line[x] = screen.Cell(x, y); line[x].Char != ' ' && line[x].Char != 0 {
				end = x + 1
			}
		}
		f.rows[y] = marked(neutral(line[:end]))
	}
	return f
}

// neutral replaces dates and hours in a row, in place, so that a picture recorded again differs
// only where the program does. Minutes and seconds stay: they show how fast it is.
func neutral(line []vt10x.Glyph) []vt10x.Glyph {
	var text strings.Builder
	for _, g := range line {
		text.WriteRune(min(max(g.Char, ' '), '~')) // a byte for each cell
	}
	// Of a time only the first two characters are replaced.
	for with, pattern := range map[string]*regexp.Regexp{"2026-01-01": regexp.MustCompile(`\d{4}-\d\d-\d\d`), "10": regexp.MustCompile(`\d\d:\d\d:\d\d`)} {
		for _, at := range pattern.FindAllStringIndex(text.String(), -1) {
			for i, c := range with {
				line[at[0]+i].Char = c
			}
		}
	}
	return line
}

// marked is a row as a part of the picture. Each run of cells of one look has its place and its
// width, so that columns stay in line whatever font a reader has.
func marked(line []vt10x.Glyph) string {
	var out strings.Builder
	for begin := 0; begin < len(line); {
		end := begin + 1
		for end < len(line) && look(line[end]) == look(line[begin]) {
			end++
		}
		var text strings.Builder
		for _, g := range line[begin:end] {
			text.WriteRune(max(g.Char, ' '))
		}
		if strings.TrimSpace(text.String()) != "" {
			fmt.Fprintf(&out, `<tspan x="%.1f" textLength="%.1f"%s>%s</tspan>`, margin+float64(begin)*cellWidth, float64(end-begin)*cellWidth, look(line[begin]), html.EscapeString(text.String()))
		}
		begin = end
	}
	return out.String()
}

// look is the attribute for a cell: its colour, and whether it stands out. Colours are classes, so
// that the picture follows the theme of the reader.
func look(g vt10x.Glyph) string {
	const reverse, bold = 1, 4 // of vt10x, which does not export them
	var classes []string
	switch {
	case g.Mode&reverse != 0:
		classes = append(classes, "rev")
	case g.FG%8 < 7 && g.FG < 16 && g.FG != 0:
		classes = append(classes, [...]string{"grey", "red", "green", "yellow", "blue", "magenta", "cyan"}[g.FG%8])
	case g.FG == vt10x.LightGrey || g.FG >= 232 && g.FG < 256:
		classes = append(classes, "grey")
	}
	if g.Mode&bold != 0 {
		classes = append(classes, "bold")
	}
	if len(classes) == 0 {
		return ""
	}
	return ` class="` + strings.Join(classes, " ") + `"`
}

// style has the colours of both themes. A row with keyframes (k) is hidden without them, unless it
// is in the last frame (end), which is what readers without motion see.
const style = `:root{color-scheme:light dark}
svg{--bg:#f6f8fa;--fg:#24292f;--grey:#59636e;--red:#b3261e;--green:#116329;--yellow:#7a4b00;--blue:#0550ae;--magenta:#8250df;--cyan:#1b6170}
@media(prefers-color-scheme:dark){svg{--bg:#161b22;--fg:#e6edf3;--grey:#9da7b1;--red:#ff9492;--green:#7ee787;--yellow:#e3b341;--blue:#79c0ff;--magenta:#d2a8ff;--cyan:#76e3ea}}
text{fill:var(--fg);font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}
.bold,.rev{font-weight:bold}.rev{text-decoration:underline}
.grey{fill:var(--grey)}.red{fill:var(--red)}.green{fill:var(--green)}.yellow{fill:var(--yellow)}.blue{fill:var(--blue)}.magenta{fill:var(--magenta)}.cyan{fill:var(--cyan)}
.k{visibility:hidden}.k.end{visibility:visible}
svg:hover .k{animation-play-state:paused!important}
@media(prefers-reduced-motion:reduce){.k{animation:none!important}}
`

// picture is the cast as SVG without a script. Each different row is there once, and keyframes say
// when it is visible; rows with the same times share them, which keeps the file small. A reader who
// wants no motion sees the last frame, and the pointer stops the motion, so that text can be
// selected.
func (r *recorder) picture(c cast) []byte {
	frames := fewer(r.frames)
	// begins has when each frame begins in the picture, and at last when all begins again.
	begins := make([]time.Duration, len(frames)+1)
	for i := range frames {
		lasts := atEnd
		if i+1 < len(frames) {
			lasts = min(max(frames[i+1].at.Sub(frames[i].at), shortest), longest)
		}
		begins[i+1] = begins[i] + lasts
	}
	total := begins[len(frames)]
	height := 0
	var body, keys bytes.Buffer
	known := map[string]int{} // keyframes by when something is seen
	for y := range rows {
		// seen says for each different text of this row in which frames it is; order keeps the
		// output the same.
		seen := map[string][]bool{}
		var order []string
		for i, f := range frames {
			row := f.rows[y]
			if row == "" {
				continue
			}
			if seen[row] == nil {
				seen[row] = make([]bool, len(frames))
				order = append(order, row)
			}
			seen[row][i] = true
		}
		for _, row := range order {
			height = y + 1
			when := fmt.Sprint(seen[row])
			class := ""
			// A row that is always visible needs no keyframes.
			if strings.Contains(when, "false") {
				if _, ok := known[when]; !ok {
					known[when] = len(known)
					fmt.Fprintf(&keys, ".k%[1]d{animation:k%[1]d %.1[2]fs step-end infinite}@keyframes k%[1]d{%[3]s}\n", known[when], total.Seconds(), keyframes(seen[row], begins))
				}
				class = fmt.Sprintf(` class="k k%d"`, known[when])
				if seen[row][len(frames)-1] {
					class = fmt.Sprintf(` class="k end k%d"`, known[when])
				}
			}
			fmt.Fprintf(&body, "<text y=\"%d\"%s>%s</text>\n", margin+y*cellHeight+14, class, row)
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="100%%" role="img" aria-labelledby="title desc">
<title id="title">%s</title>
<desc id="desc">%s</desc>
<style>
%s%s</style>
<rect width="100%%" height="100%%" rx="8" fill="var(--bg)"/>
%s</svg>
`, 2*margin+columns*cellWidth, 2*margin+height*cellHeight, html.EscapeString(c.title), html.EscapeString(c.desc), style, keys.String(), body.String())
	return out.Bytes()
}

// keyframes are the CSS for a row, in percent of the whole: only where it appears or disappears.
// begins has one element more than seen, the end.
func keyframes(seen []bool, begins []time.Duration) string {
	var out strings.Builder
	total := begins[len(begins)-1]
	for i, now := range seen {
		if i == 0 || now != seen[i-1] {
			value := "hidden"
			if now {
				value = "visible"
			}
			fmt.Fprintf(&out, "%.4g%%{visibility:%s}", 100*begins[i].Seconds()/total.Seconds(), value)
		}
	}
	return out.String()
}

// fewer drops frames until at most maxFrames are left: those that were seen for the shortest time,
// never the first or the last one.
func fewer(frames []frame) []frame {
	for len(frames) > maxFrames {
		least := 1
		for i := 1; i+1 < len(frames); i++ {
			if frames[i+1].at.Sub(frames[i].at) < frames[least+1].at.Sub(frames[least].at) {
				least = i
			}
		}
		frames = append(frames[:least:least], frames[least+1:]...)
	}
	return frames
}
