"""The primitives of secure sums: keys, seals, masks and signatures (package ``cryptography``), and shared secrets.

A secret of 32 bytes is shared over the integers modulo the smallest prime above 2^256: it is the value at 0 of a
polynomial of degree ``threshold - 1`` whose other coefficients are chosen at random, and the share of place 1, 2, ...
is its value there. Any ``threshold`` shares give the polynomial back, and any fewer are consistent with every secret.
A. Shamir, "How to share a secret", Communications of the ACM 22 (1979).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats
from logofair.errors import InputError, SecureRefusalError
from logofair.records import spoken_digest

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise InputError(
        "secure sums: the package cryptography is not installed; run: pip install 'logofair[secure]'."
    ) from None


SigningKey = ec.EllipticCurvePrivateKey
Words = npt.NDArray[np.uint64]
RandomBytes: TypeAlias = Callable[[int], bytes]

KEY_SIZE = 32
NONCE_SIZE = 12
SEAL_SIZE = NONCE_SIZE + 16  # what sealing adds: nonce and tag
PRIME = 2**256 + 297
SHARE_SIZE = 33  # a residue may need the 257th bit
_SIGNATURE = ec.ECDSA(hashes.SHA384())


def context(label: str, *parts: bytes | str | int) -> bytes:
    """Label and parts as bytes that no other label or parts give: each is preceded by its length."""
    pieces = [part if isinstance(part, bytes) else str(part).encode() for part in (label, *parts)]
    return b"logofair secure sums 1" + b"".join(len(piece).to_bytes(8, "big") + piece for piece in pieces)


class SecureRefusal(Enum):
    """Why a site refuses; the code is all that it tells."""

    TOO_FEW_SITES = "too_few_sites"  # fewer than three sites, or fewer than two thirds of the roster
    UNKNOWN_SITE = "unknown_site"  # a site that is not on the roster, or whose public key this site does not have
    BAD_SIGNATURE = "bad_signature"  # a key that its site has not signed for this run, roster and name
    BAD_KEY = "bad_key"  # a message that is no key, or this site's own key altered on the way
    BAD_SEAL = "bad_seal"  # a sealed share that was altered, or made for another sum, roster or site
    OUT_OF_RANGE = "out_of_range"  # an own value that is not finite, or too large for the sum not to wrap
    OUT_OF_ORDER = "out_of_order"  # a stage or sum number that goes back or skips
    OTHER_REQUEST = "other_request"  # another request came under the same number before, and was answered
    LEFT_OUT = "left_out"  # the sites named do not include this site, which takes part, or not what it contributed
    BAD_RELAY = "bad_relay"  # what was passed on of the last sum is not what its contributors signed, or gives no total
    ROSTER_CHANGED = "roster_changed"  # a site of the first total is missing, and this one has not agreed to that


def derived(secret: bytes, info: bytes) -> bytes:
    """A key of 32 bytes for one purpose (HKDF-SHA256)."""
    return HKDF(hashes.SHA256(), KEY_SIZE, salt=None, info=info).derive(secret)


def public_half(private: bytes) -> bytes:
    """The X25519 public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed_key(private: bytes, public: bytes, info: bytes) -> bytes:
    """The key that two holders of X25519 keys share for one purpose."""
    try:
        secret = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a wrong length, or a point of low order, which would make the secret known to all
        raise SecureRefusalError(SecureRefusal.BAD_KEY) from None
    return derived(secret, info)


def stream(key: bytes, length: int) -> Words:
    """``length`` uniform integers modulo 2^64 (ChaCha20); a key serves once, so the nonce may be zero."""
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * length)), dtype="<u8").astype(np.uint64)


def seal(key: bytes, nonce: bytes, plain: bytes, place: bytes) -> bytes:
    """Encrypt and authenticate ``plain``; it opens at the same place only."""
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, plain, place)


def unseal(key: bytes, sealed: bytes, place: bytes) -> bytes:
    """Open what :func:`seal` made, or refuse."""
    try:
        return ChaCha20Poly1305(key).decrypt(sealed[:NONCE_SIZE], sealed[NONCE_SIZE:], place)
    except (InvalidTag, ValueError):
        raise SecureRefusalError(SecureRefusal.BAD_SEAL) from None


def signature(key: SigningKey, words: bytes) -> bytes:
    """Sign with the site's long-term key (ECDSA, P-384, SHA-384)."""
    return key.sign(words, _SIGNATURE)


def check_signature(line: str, words: bytes, signed: bytes) -> None:
    """Refuse unless the holder of the public key in OpenSSH form signed the words."""
    try:
        _verifier(line.encode()).verify(signed, words, _SIGNATURE)
    except InvalidSignature:
        raise SecureRefusalError(SecureRefusal.BAD_SIGNATURE) from None


def new_signing_key() -> SigningKey:
    """Make a long-term key for a site, of the kind ``ssh-keygen -t ecdsa -b 384`` makes."""
    return ec.generate_private_key(ec.SECP384R1())


def private_text(key: SigningKey) -> str:
    """Return a private key as its file holds it (OpenSSH's format, without a passphrase)."""
    form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    return key.private_bytes(*form, serialization.NoEncryption()).decode()


def signing_key(pem: bytes, where: str = "key") -> SigningKey:
    """Read a site's private key as ``ssh-keygen -t ecdsa -b 384 -N ""`` writes it.

    ``where`` names it in an error, say by its path.
    """
    advice = 'make one with: ssh-keygen -t ecdsa -b 384 -N ""'
    for read in (serialization.load_ssh_private_key, serialization.load_pem_private_key):
        try:
            key = read(pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue
        if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp384r1":
            return key
        raise InputError(f"{where}: is a key of another kind than ECDSA P-384; {advice}.")
    raise InputError(f"{where}: is no private key that can be read without a password; {advice}.")


def public_key(line: bytes, where: str = "public key") -> str:
    """Read a site's public key as ssh-keygen writes it (``NAME.pub``), without its comment.

    ``where`` names it in an error, say by its path. Sites take their peers' keys in this form.
    """
    try:
        key = _verifier(line)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(
            f"{where}: is no public key of kind ECDSA P-384 in OpenSSH form; ask the site for the .pub file "
            "that ssh-keygen -t ecdsa -b 384 wrote."
        ) from None
    return _openssh(key)


def key_fingerprint(line: bytes, where: str = "public key") -> str:
    """What people read to each other to know that they hold the same public key: 128 bits of its SHA-256.

    Examples
    --------
    >>> line = public_line(new_signing_key())
    >>> len(key_fingerprint(line.encode())), key_fingerprint(line.encode()).count("-")
    (39, 7)
    """
    return spoken_digest(hashlib.sha256(base64.b64decode(public_key(line, where).split()[1])).digest())


def public_line(key: SigningKey) -> str:
    """Return the public half of a site's key, as in its ``NAME.pub``."""
    return _openssh(key.public_key())


def _openssh(key: ec.EllipticCurvePublicKey) -> str:
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def _verifier(line: bytes) -> ec.EllipticCurvePublicKey:
    key = serialization.load_ssh_public_key(line)
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp384r1":
        raise ValueError("kind")
    return key


def fits_sum(values: Floats, steps: Floats, sites: int) -> bool:
    """Whether a total of so many sites' values cannot wrap."""
    with np.errstate(over="ignore"):
        return bool(np.all(np.abs(values / steps) <= 2.0**62 / sites))  # not where a value is not a number


def encoded(values: Floats, steps: Floats, sites: int) -> Words:
    """Values in units of their steps, and a one that will count the contributors; refuse what could wrap."""
    if not fits_sum(values, steps, sites):
        raise SecureRefusalError(SecureRefusal.OUT_OF_RANGE)
    return np.append(np.rint(values / steps).astype(np.int64), 1).view(np.uint64)


def random_words(length: int, random: RandomBytes) -> Words:
    """Words that say nothing of any numbers, and of a count neither."""
    return np.frombuffer(random(8 * length), dtype="<u8").astype(np.uint64)


def decoded(words: Words, steps: Floats) -> tuple[Floats, int]:
    """The totals, and the number of contributors they carry with them."""
    units = words.view(np.int64)
    return units[:-1].astype(np.float64) * steps, int(units[-1])


def self_mask(mask_seed: bytes, digest: bytes, length: int) -> Words:
    """The mask of one site that stays until its seed is rebuilt."""
    return stream(derived(mask_seed, context("self mask", digest)), length)


def pair_mask(private: bytes, peer_keys: Mapping[str, bytes], site: str, digest: bytes, length: int) -> Words:
    """A site's pairwise masks: added for later names, subtracted for earlier ones, so that they cancel."""
    total = np.zeros(length, dtype=np.uint64)
    for peer, public in peer_keys.items():
        mask = stream(agreed_key(private, public, context("pair mask", digest)), length)
        total = total + mask if site < peer else total - mask
    return total


def split(secret: bytes, threshold: int, count: int, random: RandomBytes) -> tuple[bytes, ...]:
    """Share a secret of 32 bytes among the places 1 to ``count``; ``threshold`` shares of 33 bytes give it back."""
    # 128 bits more than the prime has: the remainder is uniform to within 2^-127.
    higher = [int.from_bytes(random(48), "big") % PRIME for _ in range(threshold - 1)]
    coefficients = [*higher, int.from_bytes(secret, "big")]
    shares = []
    for place in range(1, count + 1):
        value = 0
        for coefficient in coefficients:  # Horner's scheme, highest first
            value = (value * place + coefficient) % PRIME
        shares.append(value.to_bytes(SHARE_SIZE, "big"))
    return tuple(shares)


def combine(shares: Mapping[int, bytes]) -> bytes:
    """Rebuild a secret from at least ``threshold`` of its shares by place; rubbish where they do not fit together."""
    places = tuple(sorted(shares))
    terms = zip(places, _weights(places), strict=True)
    value = sum(int.from_bytes(shares[place], "big") * weight for place, weight in terms) % PRIME
    return (value % 2**256).to_bytes(KEY_SIZE, "big")  # shares of a secret never give more than 2^256


@lru_cache(maxsize=64)
def _weights(places: tuple[int, ...]) -> tuple[int, ...]:
    """What each share counts in the value at 0 (Lagrange); one table serves all secrets of a sum."""
    weights = []
    for place in places:
        above = below = 1
        for other in places:
            if other != place:
                above = above * other % PRIME
                below = below * (other - place) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)
