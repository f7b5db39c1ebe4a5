package cli

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// B3, C29, K6: the options of hooks.
func TestHookOptions(t *testing.T) {
	cfg := must(t, variables{
		"ADDON_OPERATOR_HOOK_TIMEOUT": "5m", "JQ_LIBRARY_PATH": "/jq::/more",
		"ADDON_OPERATOR_SHELL_CHROOT_DIR": "/root", "MODULES_DIR": "/root/a:/root/b", "GLOBAL_HOOKS_DIR": "/root/g", "ADDON_OPERATOR_TMP_DIR": "/root/tmp",
	})
	if cfg.HookTimeout != 5*time.Minute || cfg.ChrootDir != "/root" {
		t.Errorf("got %+v", cfg)
	}
	if got := cfg.JQDirs(); !slices.Equal(got, []string{"/jq", "/more"}) {
		t.Errorf("jq library %q", got)
	}
	if cfg := must(t, nil); cfg.HookTimeout != 10*time.Minute || len(cfg.JQDirs()) != 0 {
		t.Errorf("defaults: %+v", cfg)
	}
}

func TestHookOptionsAreRefused(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"a negative time limit":         {[]string{"--hook-timeout=-1s"}, "hook-timeout must be 0s or more, not -1s"},
		"modules outside the root":      {[]string{"--shell-chroot-dir=/root", "--modules-dir=/root/m:/m"}, "modules-dir /m must be below shell-chroot-dir /root"},
		"global hooks outside the root": {[]string{"--shell-chroot-dir=/root", "--global-hooks-dir=/rootless"}, "global-hooks-dir /rootless must be below"},
		"files outside the root":        {[]string{"--shell-chroot-dir=/root", "--tmp-dir=/root/../tmp"}, "tmp-dir /root/../tmp must be below"},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			if _, err := configured(nil, append(test.args, "--namespace=n")...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// J7: pages with secrets are shown to other machines only when somebody wants it by name.
func TestDebugAddressIsOnLoopback(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:9115": true, "127.1.2.3:0": true, "[::1]:9115": true, "localhost:9115": true, "": true,
		"0.0.0.0:9115": false, ":9115": false, "[::]:9115": false, "10.0.0.1:9115": false, "example.com:9115": false, "9115": false,
	} {
		c := must(t, variables{"DEBUG_HTTP_SERVER_ADDR": address}, "--debug-address="+address)
		if err := c.CheckDebugAddress(); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		} else if err != nil && address != "9115" && !strings.Contains(err.Error(), "DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK=true") {
			t.Errorf("%q: %v does not name the option", address, err)
		}
		c = must(t, variables{"DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK": "true"}, "--debug-address="+address)
		if err := c.CheckDebugAddress(); err != nil {
			t.Errorf("%q, when it is wanted: %v", address, err)
		}
	}
}
