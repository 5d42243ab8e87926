package kinesis

import "testing"

func TestConfig_checkMode_runsDryOnlyAtAWS(t *testing.T) {
	for endpoint, want := range map[string]CheckMode{
		"": CheckDryRun,
		"https://vpce-0a1b-2c3d.kinesis.eu-west-1.vpce.amazonaws.com": CheckDryRun,
		"https://kinesis.eu-west-1.api.aws":                           CheckDryRun,
		"https://kinesis.cn-north-1.amazonaws.com.cn":                 CheckDryRun,
		"http://localhost:4566":                                       CheckDescribe,
		"https://amazonaws.com.example.org":                           CheckDescribe,
	} {
		c := DefaultConfig()
		c.AWS.Endpoint = endpoint
		if got := c.checkMode(); got != want {
			t.Errorf("%q: %s, want %s", endpoint, got, want)
		}
	}
	c := DefaultConfig()
	c.Check = CheckOff
	if got := c.checkMode(); got != CheckOff {
		t.Errorf("off is %s", got)
	}
}
