package main

import (
	"context"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// dump asks the running operator for its actors, over the debug address or, when that
// is switched off, over the unix socket.
func dump(ctx context.Context, w io.Writer, c *Config, output string) error {
	switch output {
	case "text", "json", "yaml":
	default:
		return usageError{fmt.Errorf("output: %q is none of text, json, yaml", output)}
	}
	query := ""
	if output != "text" {
		query = "?output=json"
	}
	body, err := get(ctx, c, "/actors"+query)
	if err != nil {
		return err
	}
	if output == "yaml" {
		if body, err = yaml.JSONToYAML(body); err != nil {
			return fmt.Errorf("the operator's answer: %w", err)
		}
	}
	_, err = w.Write(body)
	return err
}
