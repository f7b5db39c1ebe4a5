package operator

import (
	"strings"
	"testing"

	"addon-operator/cmd/cli"
)

func TestAdvertisedAddress(t *testing.T) {
	for name, c := range map[string]struct {
		config cli.Config
		want   string
	}{
		"given":                 {cli.Config{AdvertiseAddress: "10.0.0.7", ListenAddress: "0.0.0.0", ListenPort: 1}, "10.0.0.7:1"},
		"given, IPv6":           {cli.Config{AdvertiseAddress: "fd00::1", ListenPort: 1}, "[fd00::1]:1"},
		"the one it listens on": {cli.Config{ListenAddress: "127.0.0.1", ListenPort: 2}, "127.0.0.1:2"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := advertised(&c.config); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	got, err := advertised(&cli.Config{ListenAddress: "0.0.0.0", ListenPort: 3})
	if err != nil || strings.HasPrefix(got, "0.0.0.0") || !strings.HasSuffix(got, ":3") {
		t.Errorf("everywhere became %q, %v", got, err)
	}
}
