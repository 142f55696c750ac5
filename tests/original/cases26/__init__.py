"""Cases of paddle.static as 2.x writes it, recorded from PaddlePaddle 2.6.2."""
