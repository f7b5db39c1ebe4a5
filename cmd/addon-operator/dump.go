package main

import (
	"context"
	"io"
)

// dump asks the running operator for its actors, over the debug address or, when that
// is switched off, over the unix socket.
func dump(ctx context.Context, w io.Writer, c *Config, output string) error {
	a := &asking{config: c, output: output, formats: []string{"text", "json", "yaml"}}
	if err := a.checked(); err != nil {
		return err
	}
	path := "/actors"
	if a.output != "text" {
		path += "?output=json"
	}
	body, err := get(ctx, c, path)
	if err != nil {
		return err
	}
	return a.print(w, body, asIs)
}
