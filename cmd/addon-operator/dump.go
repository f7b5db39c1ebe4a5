package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

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

// get reads a debug page of the running operator.
func get(ctx context.Context, c *Config, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, host, where := http.DefaultClient, c.DebugAddress, c.DebugAddress
	socket, overSocket := strings.CutPrefix(c.DebugAddress, "unix:")
	if c.DebugAddress == "" {
		socket, overSocket = c.DebugSocket, true
	}
	if overSocket {
		if socket == "" {
			return nil, errors.New("both debug-address and debug-unix-socket are switched off: there is nobody to ask")
		}
		where, host = socket, "socket"
		client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, http.NoBody)
	if err != nil {
		return nil, usageError{fmt.Errorf("debug-address %q: %w", c.DebugAddress, err)}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no operator answers on %s: %w; is it running, and is --debug-address the one it was started with?", where, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s: %s", where, resp.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}
