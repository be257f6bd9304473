// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package ticket

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// Seal is what is over the facts. Without a signature it tells that they were not damaged, and not who has written
// them.
type Seal struct {
	// SHA256 is the digest of the canonical facts, in hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Signature is the Ed25519 signature of the canonical facts, Key the SHA-256 digest of the public key that belongs
	// to it. Both are empty if they are not signed.
	Signature string `json:"signature,omitempty"`
	Key       string `json:"key,omitempty"`
}

// Digest returns the seal of canonical facts without a signature.
func Digest(content []byte) Seal {
	sum := sha256.Sum256(content)
	return Seal{SHA256: hex.EncodeToString(sum[:])}
}

// Sign returns the seal of canonical facts with a signature. The key is a private Ed25519 key in PEM (PKCS #8), as
// `openssl genpkey -algorithm ed25519` writes it.
func Sign(content, key []byte) (Seal, error) {
	out := Digest(content)
	block, _ := pem.Decode(key)
	if block == nil {
		return out, errors.New("the key to sign with is not in PEM; make one with openssl genpkey -algorithm ed25519")
	}
	if block.Type != "PRIVATE KEY" {
		return out, fmt.Errorf("the key to sign with is a %s; it has to be a PRIVATE KEY without a passphrase, as "+
			"openssl genpkey -algorithm ed25519 makes it", block.Type)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		// The cause may quote the key.
		return out, errors.New("failed to read the key to sign with")
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return out, fmt.Errorf("the key to sign with is a %T; it has to be an Ed25519 key", parsed)
	}
	out.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(private, content))
	out.Key, err = fingerprint(private.Public().(ed25519.PublicKey))
	return out, err
}

// fingerprint identifies a public key.
func fingerprint(key ed25519.PublicKey) (string, error) {
	content, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("failed to encode the public key: %w", err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// PublicKey reads the key to verify with: a public Ed25519 key in PEM (PKIX), as `openssl pkey -pubout` writes it. What
// it refuses says nothing about a file.
func PublicKey(key []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(key)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New("the key to verify with is no PUBLIC KEY in PEM; openssl pkey -pubout writes one")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("failed to read the key to verify with: %w", err)
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("the key to verify with is a %T; it has to be an Ed25519 key", parsed)
	}
	return public, nil
}

// check returns why the seal is not that of the content; nil if it is. Without a key, a signature is not checked.
func (s Seal) check(content []byte, public ed25519.PublicKey) error {
	if Digest(content).SHA256 != s.SHA256 {
		return errors.New("the facts were changed: their SHA-256 digest is another one")
	}
	if public == nil {
		return nil
	}
	if s.Signature == "" {
		return errors.New("the facts are not signed")
	}
	signature, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil {
		return fmt.Errorf("failed to read the signature: %w", err)
	}
	if !ed25519.Verify(public, content, signature) {
		return errors.New("the signature was not made with this key, or the facts were changed")
	}
	own, err := fingerprint(public)
	if err != nil {
		return err
	}
	if s.Key != own {
		return errors.New("the file names another key than the one that it is signed with")
	}
	return nil
}
