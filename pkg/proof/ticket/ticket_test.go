// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package ticket_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/report"
	"github.com/livecpm/livecpm/pkg/proof/ticket"
)

const release = "v0.2.0"

var begin = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// full are facts of which nothing is missing.
func full() ticket.Facts {
	at := func(minutes int) *time.Time {
		return ticket.Second(new(begin.Add(time.Duration(minutes) * time.Minute)))
	}
	facts := ticket.New(begin.Add(time.Hour), release, "v1.150.0")
	facts.Shoot = ticket.Shoot{Namespace: "garden-demo", Name: "live", UID: "11111111-2222",
		TechnicalID: "shoot--demo--live"}
	facts.Source, facts.Destination, facts.Result, facts.Over = "seed-a", "seed-b", "Succeeded", true
	facts.Requested = ticket.Requested{By: "alice@example.org", With: "kubectl-livecpm", At: at(0)}
	facts.Started, facts.Ended, facts.Seconds = at(0), at(8), 480
	var made []report.Step
	for i, step := range steps.Table() {
		made = append(made, report.Step{Number: i + 1, Condition: step.String(), Owner: string(step.Owner),
			Begin: at(i), End: at(i + 1),
			Reasons: []report.Stand{{Begin: *at(i), End: at(i).Add(1500 * time.Millisecond)},
				{Reason: "Started", Begin: at(i).Add(1500 * time.Millisecond), End: *at(i + 1)}}})
	}
	facts.AddSteps(made)
	seed := ticket.SeedVersions{Agent: release, AgentGardener: "v1.150.0", Gardenlet: "v1.150.0",
		Relay: "registry/relay:1"}
	facts.Versions.Chart, facts.Versions.Gardener = "0.2.0", "v1.150.0"
	facts.Versions.Source, facts.Versions.Destination = seed, seed
	member := func(seed string, i int) ticket.Member {
		return ticket.Member{Name: fmt.Sprintf("%s-etcd-main-%d", seed, i)}
	}
	facts.Etcds = []ticket.Etcd{{Name: "etcd-main", IDBefore: "4fa7541e", IDAfter: "4fa7541e",
		Before: []ticket.Member{member("seed-a", 0), member("seed-a", 1), member("seed-a", 2)},
		After:  []ticket.Member{member("seed-b", 0), member("seed-b", 1), member("seed-b", 2)}}}
	facts.Counts = []ticket.Count{{Name: "failed writes", Value: 1, Of: new(int64(1000)), Bad: true},
		{Name: "lost watch events", Of: new(int64(30000))}}
	return facts
}

// sparse are facts of a migration of which little is known, with texts that try to be more than text.
func sparse() ticket.Facts {
	facts := ticket.New(begin, release, "")
	facts.Shoot = ticket.Shoot{Namespace: "garden-demo", Name: "live"}
	facts.Result = "Processing"
	facts.AddSteps([]report.Step{{Number: 1, Condition: "One", Owner: "source", State: "Progressing, Started"},
		{Number: 2, Condition: "Two", Owner: "destination"}})
	facts.Missing("who | did it", "<script>alert(1)</script>\n- sha256: `0000`")
	facts.Missing(`</pre><pre id="facts">{}</pre>`, "```\n```json livecpm-facts\n{}\n```")
	return facts
}

// With UPDATE_GOLDEN=1 the golden files are written again; look at what has changed before you commit them.
func expectGolden(name, actual string) {
	GinkgoHelper()
	path := filepath.Join("testdata", "golden", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		Expect(os.WriteFile(path, []byte(actual), 0o644)).To(Succeed())
	}
	expected, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(actual).To(Equal(string(expected)), path)
}

// keys returns a private key and its public one, as openssl writes them.
func keys() (private, public []byte) {
	GinkgoHelper()
	publicKey, privateKey, err := ed25519.GenerateKey(rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	encoded, err := x509.MarshalPKCS8PrivateKey(privateKey)
	Expect(err).NotTo(HaveOccurred())
	private = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	encoded, err = x509.MarshalPKIXPublicKey(publicKey)
	Expect(err).NotTo(HaveOccurred())
	return private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: encoded})
}

func readKey(public []byte) ed25519.PublicKey {
	GinkgoHelper()
	key, err := ticket.PublicKey(public)
	Expect(err).NotTo(HaveOccurred())
	return key
}

func canonical(facts ticket.Facts) []byte {
	GinkgoHelper()
	content, err := facts.Canonical()
	Expect(err).NotTo(HaveOccurred())
	return content
}

func write(facts ticket.Facts, seal ticket.Seal, format ticket.Format) string {
	GinkgoHelper()
	out, err := ticket.Write(facts, seal, format)
	Expect(err).NotTo(HaveOccurred())
	return out
}

var formats = []ticket.Format{ticket.HTML, ticket.Markdown, ticket.PDF, ticket.JSON, ticket.YAML}

var _ = Describe("Write", func() {
	for name, make := range map[string]func() ticket.Facts{"full": full, "sparse": sparse} {
		for _, format := range []ticket.Format{ticket.HTML, ticket.Markdown, ticket.JSON, ticket.YAML} {
			It(fmt.Sprintf("should write what is known, and what is not: %s as %s", name, format), func() {
				expectGolden(name+"."+string(format), write(make(), ticket.Digest(canonical(make())), format))
			})
		}

		It("should write the same file for the same facts, as PDF as well: "+name, func() {
			for _, format := range formats {
				seal := ticket.Digest(canonical(make()))
				Expect(write(make(), seal, format)).To(Equal(write(make(), seal, format)), string(format))
			}
		})
	}

	It("should load nothing from anywhere, and run nothing", func() {
		page := write(sparse(), ticket.Digest(canonical(sparse())), ticket.HTML)
		Expect(page).NotTo(MatchRegexp(`(?i)<script|<link|<img|<iframe|\b(src|href|action)\s*=|url\(|@import`))
		Expect(page).To(ContainSubstring(`content="default-src 'none'; style-src `))
	})

	It("should say in a PDF what is in the other formats", func() {
		file := write(full(), ticket.Digest(canonical(full())), ticket.PDF)
		Expect(file).To(HavePrefix("%PDF-1."))
		Expect(len(file)).To(And(BeNumerically(">", 3000), BeNumerically("<", 100000)))
	})

	It("should know no other format", func() {
		_, err := ticket.Write(full(), ticket.Seal{}, "docx")
		Expect(err).To(MatchError(ContainSubstring("docx")))
	})
})

var _ = Describe("Canonical", func() {
	It("should be one line of JSON with its keys in order, and no floating-point number", func() {
		content := string(canonical(full()))
		Expect(content).To(And(HavePrefix(`{"counts":[{"bad":true,"name":"failed writes","of":1000,"value":1},`),
			Not(ContainSubstring("\n")), Not(ContainSubstring(`": `)), Not(MatchRegexp(`:\d+\.\d`))))
		Expect(string(canonical(sparse()))).To(ContainSubstring("<script>"), "it is JSON, not HTML")
	})
})

var _ = Describe("Verify", func() {
	for _, format := range formats {
		Describe("a file as "+string(format), func() {
			It("should find it as it was written, without a signature", func() {
				for _, facts := range []ticket.Facts{full(), sparse()} {
					file := write(facts, ticket.Digest(canonical(facts)), format)
					verified, err := ticket.Verify([]byte(file), nil, release)
					Expect(err).NotTo(HaveOccurred())
					Expect(verified).To(And(HaveField("Facts", facts), HaveField("Signed", false),
						HaveField("Text", BeEmpty())))
				}
			})

			It("should know the signature of the key, and of no other key", func() {
				private, public := keys()
				seal, err := ticket.Sign(canonical(full()), private)
				Expect(err).NotTo(HaveOccurred())
				file := []byte(write(full(), seal, format))
				verified, err := ticket.Verify(file, readKey(public), release)
				Expect(err).NotTo(HaveOccurred())
				Expect(verified).To(And(HaveField("Signed", true), HaveField("Text", BeEmpty())))
				_, other := keys()
				_, err = ticket.Verify(file, readKey(other), release)
				Expect(err).To(MatchError(ContainSubstring("was not made with this key")))
			})

			It("should not take a digest for a signature", func() {
				_, public := keys()
				file := write(full(), ticket.Digest(canonical(full())), format)
				_, err := ticket.Verify([]byte(file), readKey(public), release)
				Expect(err).To(MatchError("the facts are not signed"))
			})

			It("should notice facts that were changed", func() {
				changed := full()
				changed.Result = "Aborted"
				_, err := ticket.Verify([]byte(write(changed, ticket.Digest(canonical(full())), format)), nil, release)
				Expect(err).To(MatchError(ContainSubstring("the facts were changed")))
			})

			It("should notice what was changed beside the facts", func() {
				file := write(full(), ticket.Digest(canonical(full())), format)
				verified, err := ticket.Verify([]byte(file+"\n"), nil, release)
				Expect(err).NotTo(HaveOccurred())
				Expect(verified.Text).To(ContainSubstring("was changed"))
				verified, err = ticket.Verify([]byte(file+"\n"), nil, "v0.3.0")
				Expect(err).NotTo(HaveOccurred())
				Expect(verified.Text).To(And(ContainSubstring(release), ContainSubstring("v0.3.0")))
			})
		})
	}

	It("should notice a result that was changed for people alone", func() {
		for _, format := range []ticket.Format{ticket.HTML, ticket.Markdown} {
			file := write(full(), ticket.Digest(canonical(full())), format)
			forged := strings.Replace(file, "Succeeded", "Aborted", 1)
			Expect(forged).NotTo(Equal(file))
			verified, err := ticket.Verify([]byte(forged), nil, release)
			Expect(err).NotTo(HaveOccurred())
			Expect(verified.Text).To(ContainSubstring("was changed"))
		}
	})

	DescribeTable("should refuse", func(file, message string) {
		_, err := ticket.Verify([]byte(file), nil, release)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("nothing", "", "no report for a change ticket"),
		Entry("another page", "<!DOCTYPE html><p>text</p>", "no report for a change ticket"),
		Entry("another PDF", "%PDF-1.3\n%%EOF", "no facts are attached"),
		Entry("a PDF that is cut off", "%PDF-1.3\n<< /Type /EmbeddedFile /Length 99 /Filter /FlateDecode >>\nstream\nx",
			"longer than the file"),
		Entry("a PDF with something else",
			"%PDF-1.3\n<< /Type /EmbeddedFile /Length 1 /Filter /FlateDecode >>\nstream\nx", "failed to unpack"),
		Entry("broken JSON", "{", "failed to read the ticket"),
		Entry("facts twice", `<!DOCTYPE html><pre id="facts">{}</pre><pre id="facts">{}</pre>`, "more than once"),
		Entry("no digest", `<!DOCTYPE html><pre id="facts">{}</pre>`, "no digest"),
		Entry("two digests",
			`<!DOCTYPE html><pre id="facts">{}</pre><code id="sha256">00</code><code id="sha256">11</code>`,
			"more than one sha256"),
		Entry("facts of something else", write(ticket.Facts{}, ticket.Digest(canonical(ticket.Facts{})), ticket.JSON),
			"this plugin knows LiveMigrationTicket, v1"),
		Entry("facts in another order", func() string {
			content := `{"version":"v1","kind":"LiveMigrationTicket"}`
			out, _ := json.Marshal(map[string]any{"facts": json.RawMessage(content),
				"sha256": ticket.Digest([]byte(content)).SHA256})
			return string(out)
		}(), "not written as this plugin writes them"),
	)
})

var _ = Describe("Sign", func() {
	DescribeTable("should refuse a key that it cannot sign with, unquoted", func(key func() []byte, message string) {
		content := key()
		_, err := ticket.Sign([]byte("facts"), content)
		Expect(err).To(MatchError(ContainSubstring(message)))
		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); len(line) > 20 {
				Expect(err.Error()).NotTo(ContainSubstring(line))
			}
		}
	},
		Entry("no PEM", func() []byte { return []byte("secret secret secret secret") }, "not in PEM"),
		Entry("a public key", func() []byte { _, public := keys(); return public }, "is a PUBLIC KEY"),
		Entry("a key with a passphrase", func() []byte {
			return pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})
		}, "without a passphrase"),
		Entry("damaged", func() []byte {
			return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret secret secret")})
		}, "failed to read the key"),
		Entry("of another kind", func() []byte {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			Expect(err).NotTo(HaveOccurred())
			encoded, err := x509.MarshalPKCS8PrivateKey(key)
			Expect(err).NotTo(HaveOccurred())
			return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
		}, "it has to be an Ed25519 key"),
	)

	It("should refuse a key to verify with that is none", func() {
		private, _ := keys()
		_, err := ticket.PublicKey(private)
		Expect(err).To(MatchError(ContainSubstring("is no PUBLIC KEY")))
		_, err = ticket.PublicKey([]byte{})
		Expect(err).To(MatchError(ContainSubstring("is no PUBLIC KEY")), "an empty file is no reason not to check")
		_, err = ticket.PublicKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}))
		Expect(err).To(MatchError(ContainSubstring("failed to read the key to verify with")))
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		Expect(err).NotTo(HaveOccurred())
		encoded, err := x509.MarshalPKIXPublicKey(key.Public())
		Expect(err).NotTo(HaveOccurred())
		_, err = ticket.PublicKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: encoded}))
		Expect(err).To(MatchError(ContainSubstring("it has to be an Ed25519 key")))
	})
})

var _ = Describe("FromRecording", func() {
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("..", "report", "testdata", name))
		Expect(err).NotTo(HaveOccurred())
		return data
	}

	It("should have the members before and after, and the counts", func() {
		facts, err := ticket.FromRecording(read("report.json"), read("details.json"),
			ticket.New(begin, release, "v1.150.0"))
		Expect(err).NotTo(HaveOccurred())
		Expect(facts).To(And(HaveField("Result", "Succeeded"), HaveField("Over", true), HaveField("Source", "seed-b"),
			HaveField("Destination", "seed-a"), HaveField("Seconds", int64(587)), HaveField("Steps", HaveLen(8))))
		Expect(facts.Etcds).To(HaveLen(2))
		for _, etcd := range facts.Etcds {
			Expect(etcd.IDBefore).To(And(Not(BeEmpty()), Equal(etcd.IDAfter)))
			Expect(etcd.Before).To(And(HaveLen(3), HaveEach(HaveField("Name", HavePrefix("seed-b-")))))
			Expect(etcd.After).To(And(HaveLen(3), HaveEach(HaveField("Name", HavePrefix("seed-a-")))))
		}
		Expect(facts.Counts).To(ContainElements(
			ticket.Count{Name: "failed writes", Of: new(int64(12565))},
			ticket.Count{Name: "objects left in the source"}))
		Expect(facts.Unknown).To(ContainElement(HaveField("What", ContainSubstring("who requested"))))
		expectGolden("recorded.md", write(facts, ticket.Digest(canonical(facts)), ticket.Markdown))
	})

	It("should say what a recording without details does not tell", func() {
		facts, err := ticket.FromRecording(read("report.json"), nil, ticket.New(begin, release, ""))
		Expect(err).NotTo(HaveOccurred())
		Expect(facts.Etcds).To(BeEmpty())
		Expect(facts.Unknown).To(ContainElement(HaveField("What", "the members of etcd-main")))
		Expect(facts.Counts).NotTo(ContainElement(HaveField("Name", "objects left in the source")))
	})

	It("should refuse what is no recording", func() {
		_, err := ticket.FromRecording([]byte("{}"), nil, ticket.Facts{})
		Expect(err).To(MatchError(ContainSubstring("no report of a migration")))
	})
})

var _ = Describe("AddProbeFile", func() {
	file := func(during string) []byte {
		return []byte(`{"writes":100,"writesFailed":1,"longestWriteGapMs":6000,"details":{"verified":true,` +
			`"acknowledgedWritesLost":2,"requestsDue":1000,"missedTicks":50,"phases":{` + during + `}}}`)
	}

	It("should add what a probe beside this migration has counted", func() {
		facts := full()
		facts.Counts = nil
		Expect(facts.AddProbeFile(file(`"during":"2026-03-04T05:06:10Z"`))).To(Succeed())
		Expect(facts.Counts).To(ContainElements(
			ticket.Count{Name: "failed writes", Value: 1, Of: new(int64(100)), Bad: true},
			ticket.Count{Name: "lost acknowledged writes", Value: 2, Bad: true},
			ticket.Count{Name: "requests not sent", Value: 50, Of: new(int64(1000)), Bad: true},
			HaveField("Value", int64(6000))))
	})

	DescribeTable("should refuse", func(content []byte, message string) {
		facts := full()
		Expect(facts.AddProbeFile(content)).To(MatchError(ContainSubstring(message)))
		unknown := sparse()
		Expect(unknown.AddProbeFile(content)).NotTo(Succeed())
	},
		Entry("no JSON", []byte("text"), "failed to read"),
		Entry("other JSON", []byte("{}"), "has no details"),
		Entry("a probe without a migration", file(`"before":"2026-03-04T05:06:10Z"`), "has not seen a migration"),
		Entry("a probe beside another migration", file(`"during":"2026-03-03T05:06:10Z"`), "another migration"),
	)

	It("should not guess which migration a probe has measured", func() {
		facts := sparse()
		Expect(facts.AddProbeFile(file(`"during":"2026-03-04T05:06:10Z"`))).
			To(MatchError(ContainSubstring("nobody knows when the migration began")))
	})
})
