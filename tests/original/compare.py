"""Compares what ours gives for a case with the record of the original. Files.py reads it in Python 2.7, too."""
import numpy as np

# The bound, once for all: both sides add float32 numbers, in different orders and with different
# roundings of exp and tanh. A difference may be 1e-5 of the number itself, or 2e-6 of the largest
# number beside it, where large terms cancel.
RELATIVE = 1e-5
OF_LARGEST = 2e-6
TRAINED = 5  # times the bound after ten steps, each of which adds its own


def excess(ours, theirs, allowed=0.0):
    """How many times the bound the worst element is off; 0 for equal numbers. allowed: added to the bound."""
    ours, theirs = ours.astype('float64'), theirs.astype('float64')
    if not theirs.size:
        return 0.0
    finite = np.isfinite(theirs)
    if (finite != np.isfinite(ours)).any() or not np.array_equal(ours[~finite], theirs[~finite],
                                                                 equal_nan=True):
        return np.inf
    if not finite.any():
        return 0.0
    ours, theirs = ours[finite], theirs[finite]
    bound = RELATIVE * np.abs(theirs) + OF_LARGEST * np.abs(theirs).max() + max(allowed, 1e-12)
    return float((np.abs(ours - theirs) / bound).max())


def _arrays(found):
    return {key: value if isinstance(value, tuple) else (np.asarray(value), [])
            for key, value in found.items()}


def _difference(key, ours, theirs, random, allowed):
    (ours, our_lod), (theirs, their_lod) = ours, theirs
    if ours.dtype != theirs.dtype:
        return '%s is %s, was %s' % (key, ours.dtype, theirs.dtype)
    if ours.shape != theirs.shape:
        return '%s has shape %s, had %s' % (key, ours.shape, theirs.shape)
    if our_lod != their_lod:
        return '%s has lengths %s, had %s' % (key, our_lod, their_lod)
    if random and key.startswith(('out/', 'loss/', 'final/', 'gradient/')):
        return None
    if ours.dtype.kind in 'biu':
        return None if np.array_equal(ours, theirs) else '%s is\n%s\nand was\n%s' % (key, ours, theirs)
    over = excess(ours, theirs, allowed) / (TRAINED if key.startswith(('loss/', 'final/', 'after/')) else 1)
    if over <= 1:
        return None
    worst = np.abs(ours.astype('float64') - theirs).max() if np.isfinite(over) else over
    return ('%s is off by %.3g, %.3g times the bound\nis  %s\nwas %s'
            % (key, worst, over, ours.reshape(-1)[:8], theirs.reshape(-1)[:8]))


def differences(found, about, recorded, recorded_about, allowed=0.0):
    """A line for everything that is not as it was recorded."""
    found, lines = _arrays(found), []
    for key in sorted(set(found) | set(recorded)):
        if key not in recorded:
            lines.append(key + ' was not there')
        elif key not in found:
            lines.append(key + ' is missing')
        else:
            line = _difference(key, found[key], recorded[key], about['random'], allowed)
            if line:
                lines.append(line)
    for i, (ours, theirs) in enumerate(zip(about['outs'], recorded_about['outs'])):
        if ours != theirs:
            lines.append('result %d is declared %s, was %s' % (i, ours, theirs))
    return lines
